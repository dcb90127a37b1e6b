package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/informd/informd/internal/relay"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const deadline = 30 * time.Second

// bench is a relay over a server in this process.
type bench struct {
	t      *testing.T
	server *server.Server
	client js.JetStream

	mu       sync.Mutex
	replaced []bool
	// fence is what the journal's fence returns, and wait what ends the pause.
	fence error
	wait  chan struct{}
	// broken is the error of each opening of the journal, nil for none.
	broken error
	// unanswered is what a request begins with whose answer is lost; then is called.
	unanswered []byte
	then       func()
}

func newBench(t *testing.T) *bench {
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
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	b := &bench{t: t, server: s, wait: make(chan struct{})}
	if b.client, err = js.New(b.connect()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) connect() *nats.Conn {
	b.t.Helper()
	conn, err := nats.Connect("", nats.InProcessServer(b), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(conn.Close)
	return conn
}

func (b *bench) open() *relay.Journal {
	b.t.Helper()
	conn := b.connect()
	j, err := relay.Open(b.t.Context(), relay.Options{
		Open: func(ctx context.Context, replaces *jetstream.Journal) (*jetstream.Journal, error) {
			if err := b.isBroken(); err != nil {
				return nil, err
			}
			return jetstream.Open(ctx, jetstream.Config{
				Conn: conn, Cluster: "test", Stream: "INFORMD", SubjectPrefix: "k8s", HistoryPerObject: 16, DeletedRetention: time.Hour,
				Replaces: replaces, Fence: b.fenced, Logger: slog.New(slog.DiscardHandler),
			})
		},
		Wait: func(ctx context.Context) error {
			if b.fenced() == nil {
				return nil
			}
			select {
			case <-b.wait:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Replaced: func(lost bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.replaced = append(b.replaced, lost)
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.t.Errorf("Close: %v", err)
		}
	})
	return j
}

func (b *bench) fenced() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fence
}

func (b *bench) setFence(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fence = err
}

func (b *bench) isBroken() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

func (b *bench) setBroken(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = err
}

func (b *bench) wasReplaced() []bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]bool(nil), b.replaced...)
}

func (b *bench) remove(streams ...string) {
	b.t.Helper()
	for _, s := range streams {
		if err := b.client.DeleteStream(b.t.Context(), s); err != nil {
			b.t.Fatal(err)
		}
	}
}

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.After(deadline)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case <-end:
			t.Fatalf("%s: not within %v", what, deadline)
		case <-poll.C:
		}
	}
}

// change is the n-th event of an object.
func change(name string, n uint64, op event.Op) event.Event {
	uid := "uid-" + name
	e := event.Event{
		ID: event.ObjectID(uid, 100+n, 0), Op: op, Time: time.Unix(1_700_000_000, 0).UTC(), Cluster: "test", Target: "core/configmaps",
		Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: "default", Name: name, UID: uid,
		ResourceVersion: 100 + n, Ordinal: n, Data: fmt.Appendf(nil, `{"object":{"n":%d}}`, n),
	}
	if n > 1 {
		e.PrevResourceVersion = 99 + n
	}
	if op == event.Deleted {
		e.ID = event.DeletedID(uid, 0)
	}
	return e
}

func mustAppend(t *testing.T, j journal.Journal, events ...event.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := j.Append(ctx, events); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

// readIDs reads until the last id, and returns all of them. It reports how often the
// cursor has moved.
func readIDs(t *testing.T, c journal.Cursor, last string, commit bool) (ids []string, moved int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	seq := uint64(0)
	for {
		entries, err := c.Read(ctx, 10)
		if errors.Is(err, journal.ErrMoved) {
			moved++
			continue
		}
		if err != nil {
			t.Fatalf("Read after %q: %v", ids, err)
		}
		for _, e := range entries {
			if e.Seq != 0 && e.Seq <= seq {
				t.Errorf("%s has the sequence %d, after %d", e.Event.ID, e.Seq, seq)
			}
			seq = e.Seq
			ids = append(ids, e.Event.ID)
			if commit {
				if err := c.Commit(ctx, e.Seq); err != nil {
					t.Errorf("Commit: %v", err)
				}
			}
			if e.Event.ID == last {
				return ids, moved
			}
		}
	}
}

// TestStreamDeleted: an append that meets a deleted stream waits and works, a cursor gets
// what it has not committed and what follows, under sequences that count up, and a
// later process knows that its marks are lost.
func TestStreamDeleted(t *testing.T) {
	for name, tt := range map[string]struct {
		streams []string
		lost    bool
		again   string // the first id that the slow reader gets after the accident
	}{
		"events": {[]string{"INFORMD"}, true, "uid-a:102"},
		"both":   {[]string{"INFORMD", "INFORMD_STATE"}, true, "uid-a:102"},
		"state":  {[]string{"INFORMD_STATE"}, false, "uid-a:102"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			j := b.open()
			if err := j.Bind(t.Context(), "cluster-uid"); err != nil {
				t.Fatal(err)
			}
			c, err := j.Open("sink", journal.FromSnapshot)
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, j, change("a", 1, event.Added))
			if ids, _ := readIDs(t, c, "uid-a:101", true); len(ids) != 1 {
				t.Errorf("read %q", ids)
			}
			mustAppend(t, j, change("a", 2, event.Modified), change("b", 1, event.Added), change("b", 2, event.Deleted))
			if err := j.Mark(t.Context(), "core/configmaps", []byte("mark")); err != nil {
				t.Fatal(err)
			}
			before := j.Stats().LastSeq
			b.remove(tt.streams...)
			began := time.Now()
			until(t, "the journal is open again", func() bool { return len(b.wasReplaced()) == 1 })
			t.Logf("open again after %v", time.Since(began))
			mustAppend(t, j, change("a", 3, event.Modified))
			if got := b.wasReplaced(); got[0] != tt.lost {
				t.Errorf("events lost: %t, want %t", got[0], tt.lost)
			}
			ids, moved := readIDs(t, c, "uid-a:103", true)
			want := []string{tt.again, "uid-b:101", "uid-b:deleted", "uid-a:103"}
			if fmt.Sprint(ids) != fmt.Sprint(want) || moved != 1 {
				t.Errorf("read %q, moved %d times; want %q, once", ids, moved, want)
			}
			if s := j.Stats(); s.LastSeq <= before || s.Lost == 0 {
				t.Errorf("stats %+v, the last sequence was %d", s, before)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}

			next := b.open()
			if err := next.Bind(t.Context(), "another-uid"); err == nil {
				t.Error("the new journal belongs to no cluster")
			}
			var known []string
			kept, err := next.Restore(t.Context(), "core/configmaps", func(e event.Event) { known = append(known, e.ID) })
			if err != nil || !kept.Void {
				t.Errorf("checkpoint %+v (%v), want a void one", kept, err)
			}
			if len(known) != 2 {
				t.Errorf("a later process knows %q", known)
			}
		})
	}
}

// TestPurged: a purge is found although nothing is appended.
func TestPurged(t *testing.T) {
	b := newBench(t)
	j := b.open()
	mustAppend(t, j, change("a", 1, event.Added))
	s, err := b.client.Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the journal is open again", func() bool { return len(b.wasReplaced()) == 1 })
	mustAppend(t, j, change("a", 2, event.Modified))
}

// TestPaused: while the lease could not be refreshed nothing is written, and calls wait.
func TestPaused(t *testing.T) {
	b := newBench(t)
	j := b.open()
	mustAppend(t, j, change("a", 1, event.Added))
	b.setFence(lease.ErrPaused)
	done := make(chan error, 1)
	go func() { done <- j.Append(t.Context(), []event.Event{change("a", 2, event.Modified)}) }()
	select {
	case err := <-done:
		t.Fatalf("Append returns %v without the lease", err)
	case <-time.After(200 * time.Millisecond):
	}
	b.setFence(nil)
	close(b.wait)
	if err := <-done; err != nil {
		t.Errorf("Append: %v", err)
	}
}

// TestAnotherWriter: what another process has written ends the journal for good, also
// after the lease had expired.
func TestAnotherWriter(t *testing.T) {
	b := newBench(t)
	j := b.open()
	mustAppend(t, j, change("a", 1, event.Added))
	if err := j.Mark(t.Context(), "core/configmaps", []byte("mark")); err != nil {
		t.Fatal(err)
	}
	if err := j.Verify(t.Context()); err != nil {
		t.Errorf("Verify: %v", err)
	}
	other := b.open()
	if err := j.Verify(t.Context()); !errors.Is(err, lease.ErrLost) {
		t.Errorf("Verify after another process has opened the journal: %v", err)
	}
	if err := other.Verify(t.Context()); err != nil {
		t.Errorf("Verify of the other: %v", err)
	}
	if err := j.Mark(t.Context(), "core/configmaps", []byte("late")); !errors.Is(err, jetstream.ErrFenced) {
		t.Errorf("a late mark: %v", err)
	}
	until(t, "the failure is reported", func() bool {
		select {
		case <-j.Failed():
			return errors.Is(j.Failure(), jetstream.ErrFenced)
		default:
			return false
		}
	})
}

// TestOpenWhileLost: a journal that cannot be replaced does not hold the caller, who may have to stop.
func TestOpenWhileLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.open()
	b.setBroken(errors.New("no quota"))
	b.remove("INFORMD")
	until(t, "the journal is lost", func() bool { return j.Problem() != "" })
	late := make(chan error, 1)
	go func() {
		_, err := j.Open("late", journal.FromSnapshot)
		late <- err
	}()
	select {
	case err := <-late:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open returned %v, want DeadlineExceeded", err)
		}
	case <-time.After(deadline):
		t.Fatal("Open did not return")
	}
	b.setBroken(nil)
	until(t, "the journal is open again", func() bool { return len(b.wasReplaced()) == 1 })
	c, err := j.Open("late", journal.FromSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
