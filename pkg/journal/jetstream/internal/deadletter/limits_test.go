package deadletter_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/deadletter"
)

// client is one of a server in this process.
func client(t *testing.T) js.JetStream {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 16 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := js.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func queues(c js.JetStream, limits deadletter.Limits, log io.Writer) *deadletter.Queues {
	return deadletter.New(c, deadletter.Options{
		Stream: "INFORMD", Limits: func() deadletter.Limits { return limits },
		Usable: func(context.Context) error { return nil }, Fits: func(*nats.Msg) bool { return true },
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// letter is one that cannot be compressed.
func letter(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// fill puts letters until one is refused, with that error.
func fill(t *testing.T, q *deadletter.Queue, size int) (n int, refusal error) {
	t.Helper()
	for {
		if err := q.Put(t.Context(), letter(size)); err != nil {
			return n, err
		}
		if n++; n > 1000 {
			t.Fatalf("%d letters of %d bytes and no limit", n, size)
		}
	}
}

func numbersOf(t *testing.T, q *deadletter.Queue) (numbers []uint64) {
	t.Helper()
	err := q.Each(t.Context(), func(number uint64, _ []byte) error {
		numbers = append(numbers, number)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// TestLimits: large letters stop first, so that small ones have space. The letters that an
// earlier version has stored without limits count, and stay.
func TestLimits(t *testing.T) {
	c := client(t)
	before := queues(c, deadletter.Limits{}, io.Discard).Of("hook")
	for range 8 {
		if err := before.Put(t.Context(), letter(40<<10)); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	all := queues(c, deadletter.Limits{Data: 256 << 10, All: 512 << 10}, &log)
	hook, source := all.Of("hook"), all.Of("source")
	for range 3 {
		if n, err := fill(t, hook, 40<<10); n != 0 || !errors.Is(err, journal.ErrTooLarge) {
			t.Fatalf("%d large letters over the limit: %v", n, err)
		}
	}
	small, err := fill(t, source, 1<<10)
	if small < 30 || errors.Is(err, journal.ErrTooLarge) || !strings.Contains(err.Error(), "informd deadletters") {
		t.Errorf("%d small letters, then %v", small, err)
	}
	large := numbersOf(t, hook)
	if n := len(numbersOf(t, source)); len(large) != 8 || n != small {
		t.Errorf("%d and %d letters are listed, want 8 and %d", len(large), n, small)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}

	if err := errors.Join(hook.Drop(t.Context(), large...), source.Drop(t.Context(), numbersOf(t, source)...)); err != nil {
		t.Fatal(err)
	}
	if n, err := fill(t, hook, 40<<10); n != 6 || !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("%d large letters fit into the empty queue, want 6: %v", n, err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings, want one more:\n%s", n, log.String())
	}
}

// TestLimitsHoldForAllWriters: letters that are written at the same time do not pass the limit
// together.
func TestLimitsHoldForAllWriters(t *testing.T) {
	c, limit := client(t), int64(256<<10)
	all := queues(c, deadletter.Limits{Data: limit, All: 2 * limit}, io.Discard)
	var writers sync.WaitGroup
	for range 16 {
		writers.Go(func() {
			q := all.Of("hook")
			for range 8 {
				if err := q.Put(t.Context(), letter(40<<10)); err != nil && !errors.Is(err, journal.ErrTooLarge) {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	stream, err := c.Stream(t.Context(), "INFORMD_DEADLETTERS")
	if err != nil {
		t.Fatal(err)
	}
	// The stream counts a little more for a letter than its message has.
	if s := stream.CachedInfo().State; int64(s.Bytes) > limit+int64(s.Msgs)*64 || s.Msgs == 0 {
		t.Errorf("%d letters have %d bytes, the limit is %d", s.Msgs, s.Bytes, limit)
	}
}

// TestLimitsWithin: on informd's own server there is a quarter that dead letters never take. On
// others small letters have the limits of the server.
func TestLimitsWithin(t *testing.T) {
	const mib = 1 << 20
	others := func(n int64) func() int64 { return func() int64 { return n } }
	for name, c := range map[string]struct {
		maxBytes int64
		others   func() int64
		want     deadletter.Limits
	}{
		"own":                  {1 << 30, others(128 * mib), deadletter.Limits{Data: 64 * mib, All: 96 * mib}},
		"own, large":           {64 << 30, others(8 << 30), deadletter.Limits{Data: 512 * mib, All: 6 << 30}},
		"the user's":           {1 << 30, nil, deadletter.Limits{Data: 64 * mib}},
		"the user's, small":    {16 * mib, nil, deadletter.Limits{Data: 32 * mib}},
		"the user's, no limit": {0, nil, deadletter.Limits{}},
	} {
		if got := deadletter.LimitsWithin(c.maxBytes, c.others)(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
