package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

const stream = "INFORMD"

// deadline bounds every wait; it is for a busy machine and no measure.
const deadline = 30 * time.Second

func timeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(deadline); !ok(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("waited %s for: %s", deadline, what)
		}
	}
}

// logBuffer is a log that tests read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func config(dir string) embedded.Config {
	c := embedded.Config{Dir: dir, MaxBytes: 1 << 30, Stream: stream, Logger: slog.New(slog.DiscardHandler)}
	c.Tick(10 * time.Millisecond)
	c.Patience(deadline) // a busy machine is not stuck
	return c
}

// start starts a server and closes it at the end of the test, if it is open then.
func start(t *testing.T, c embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(timeout(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func stop(t *testing.T, s *embedded.Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func js(t *testing.T, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	j, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// create makes the journal's stream as the journal does, or finds it.
func create(t *testing.T, s *embedded.Server) jetstream.Stream {
	t.Helper()
	st, err := js(t, s.Conn()).CreateOrUpdateStream(timeout(t), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"k8s.>"}, MaxMsgsPerSubject: 16, Discard: jetstream.DiscardNew,
		MaxBytes: s.MaxBytes(), AllowDirect: true, Duplicates: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func subject(n int) string { return "k8s.c.core.pods.ns.p" + strconv.Itoa(n) }

// body is a message that takes 8 KiB, so that a thousand fill a block.
func body(n int) []byte {
	return bytes.Repeat([]byte{byte('a' + n%26)}, 8<<10)
}

// publish appends messages from..to, each with its own subject.
func publish(t *testing.T, s *embedded.Server, from, to int) {
	t.Helper()
	j := js(t, s.Conn())
	var acks []jetstream.PubAckFuture
	for n := from; n < to; n++ {
		ack, err := j.PublishAsync(subject(n), body(n))
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, ack)
		if len(acks) < 256 && n+1 < to {
			continue
		}
		for _, ack := range acks {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				t.Fatal(err)
			case <-timeout(t).Done():
				t.Fatal("no acknowledgement")
			}
		}
		acks = nil
	}
}

// stored returns the numbers of the messages that the stream can deliver.
func stored(t *testing.T, s *embedded.Server, n int) map[int]uint64 {
	t.Helper()
	st := create(t, s)
	found := make(map[int]uint64)
	for i := range n {
		m, err := st.GetLastMsgForSubject(timeout(t), subject(i))
		if err != nil {
			continue
		}
		if !bytes.Equal(m.Data, body(i)) {
			t.Errorf("message %d has another body", i)
		}
		found[i] = m.Sequence
	}
	return found
}

func messageDir(dir string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs")
}

// blocks returns the block files in order.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(messageDir(dir), "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(path)[:len(filepath.Base(path))-len(".blk")])
		return n
	}
	slices.SortFunc(paths, func(a, b string) int { return number(a) - number(b) })
	return paths
}

// flip changes one byte and keeps the file's times, as a bad disk does.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 0xff
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// stoppedCleanly reports whether the ledger says that the server was stopped in order.
func stoppedCleanly(t *testing.T, dir string) bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "store.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ledger struct {
		Clean bool `json:"clean"`
	}
	if err := json.Unmarshal(raw, &ledger); err != nil {
		t.Fatal(err)
	}
	return ledger.Clean
}

// crashed makes the ledger that of a process that was killed.
func crashed(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "store.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	killed := bytes.Replace(raw, []byte(`"clean":true`), []byte(`"clean":false`), 1)
	if bytes.Equal(killed, raw) {
		t.Fatalf("the ledger does not say clean: %s", raw)
	}
	if err := os.WriteFile(path, killed, 0o600); err != nil {
		t.Fatal(err)
	}
}
