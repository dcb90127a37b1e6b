package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// host is a JetStream server in this process that can be stopped, started on
// another directory, and cut off. Connections made through it find the server that
// runs at the time.
type host struct {
	t       testing.TB
	payload int32

	mu      sync.Mutex
	dir     string
	running *server.Server
	filter  func(net.Conn) net.Conn
	looker  js.JetStream
}

func newHost(t testing.TB) *host { return newHostWith(t, 0) }

func newHostWith(t testing.TB, payload int32) *host {
	t.Helper()
	h := &host{t: t, payload: payload, dir: t.TempDir()}
	h.start()
	t.Cleanup(h.stop)
	return h
}

func (h *host) start() {
	h.t.Helper()
	s, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: h.dir, NoSigs: true, NoLog: true, MaxPayload: h.payload,
		JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 16 << 20,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		h.t.Fatal("the server is not ready")
	}
	h.mu.Lock()
	h.running = s
	h.mu.Unlock()
}

func (h *host) stop() {
	h.mu.Lock()
	s := h.running
	h.running = nil
	h.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// copyDir is a copy of the server's files as they are now.
func (h *host) copyDir() string {
	h.t.Helper()
	dir := h.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(h.dir)); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// restartOn stops the server and starts one on another directory.
func (h *host) restartOn(dir string) {
	h.t.Helper()
	h.stop()
	h.dir = dir
	h.start()
}

// InProcessConn implements the client library's InProcessConnProvider.
func (h *host) InProcessConn() (net.Conn, error) {
	h.mu.Lock()
	s, filter := h.running, h.filter
	h.mu.Unlock()
	if s == nil {
		return nil, errors.New("the server is down")
	}
	conn, err := s.InProcessConn()
	if err == nil && filter != nil {
		conn = filter(conn)
	}
	return conn, err
}

func (h *host) connect() *nats.Conn {
	h.t.Helper()
	conn, err := nats.Connect("", nats.InProcessServer(h), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(conn.Close)
	return conn
}

// shared is one client for all looks behind the journal's back.
func (h *host) shared() js.JetStream {
	h.t.Helper()
	if h.looker == nil {
		h.looker = h.client()
	}
	return h.looker
}

func (h *host) client() js.JetStream {
	h.t.Helper()
	client, err := js.New(h.connect())
	if err != nil {
		h.t.Fatal(err)
	}
	return client
}

func (h *host) config() jetstream.Config {
	h.t.Helper()
	return jetstream.Config{
		Conn: h.connect(), Cluster: "test", Stream: "INFORMD", SubjectPrefix: "k8s",
		HistoryPerObject: 16, DeletedRetention: time.Hour, Logger: slog.New(slog.DiscardHandler),
	}
}

func (h *host) open(change ...func(c *jetstream.Config)) *jetstream.Journal {
	h.t.Helper()
	c := h.config()
	for _, f := range change {
		f(&c)
	}
	j, err := jetstream.Open(context.WithoutCancel(h.t.Context()), c)
	if err != nil {
		h.t.Fatal(err)
	}
	j.SetCloseTimeout(patience)
	h.t.Cleanup(func() {
		if err := j.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
			h.t.Errorf("Close: %v", err)
		}
	})
	return j
}

func history(n int64) func(*jetstream.Config) {
	return func(c *jetstream.Config) { c.HistoryPerObject = n }
}

func mustOpen(t testing.TB, j journal.Journal, name string, start journal.Start) journal.Cursor {
	t.Helper()
	c, err := j.Open(name, start)
	if err != nil {
		t.Fatalf("Open(%q): %v", name, err)
	}
	return c
}

func mustAppend(t testing.TB, j journal.Journal, events ...event.Event) {
	t.Helper()
	if err := j.Append(t.Context(), events); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

func mustCommit(t testing.TB, c journal.Cursor, seq uint64) {
	t.Helper()
	if err := c.Commit(t.Context(), seq); err != nil {
		t.Fatalf("Commit(%d): %v", seq, err)
	}
}

// wantCheckpoint wants the mark of a target, which may be void.
func wantCheckpoint(t *testing.T, j journal.Journal, mark string, void bool) {
	t.Helper()
	c, err := j.Restore(t.Context(), "core/configmaps", func(event.Event) {})
	if string(c.Mark) != mark || c.Void != void || err != nil {
		t.Errorf("mark %q, void: %v, %v; want %q, %v", c.Mark, c.Void, err, mark, void)
	}
}

func mustClose(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// patience bounds every wait; it is for a busy machine and no measure.
const patience = time.Minute

// until waits for a condition.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// object makes events of one object, one after the other.
type object struct {
	name, uid string
	prev      uint64 // revision of the last event
	ordinal   uint64
}

// clock is a revision that counts up over all objects of a test.
type clock struct{ rv uint64 }

func (o *object) event(c *clock, op event.Op) event.Event {
	c.rv++
	if op == event.Added {
		o.uid, o.prev, o.ordinal = fmt.Sprintf("%s-%d", o.name, c.rv), 0, 0
	}
	o.ordinal++
	e := event.Event{
		ID: event.ObjectID(o.uid, c.rv, 0), Op: op, Time: time.Unix(1_700_000_000+int64(c.rv), 0).UTC(),
		Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", Kind: "ConfigMap",
		Namespace: "default", Name: o.name, UID: o.uid,
		ResourceVersion: c.rv, PrevResourceVersion: o.prev, Ordinal: o.ordinal,
		Data: fmt.Appendf(nil, `{"object":{"rv":%d}}`, c.rv),
	}
	if op == event.Deleted {
		e.ID = event.DeletedID(o.uid, 0)
	}
	o.prev = c.rv
	return e
}

// read reads n entries, in calls of at most limit, or fails after a minute.
func read(t testing.TB, c journal.Cursor, n int) []journal.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []journal.Entry
	for len(all) < n {
		entries, err := c.Read(ctx, n-len(all))
		if err != nil {
			t.Fatalf("Read after %d of %d entries: %v\n%s", len(all), n, err, show(all))
		}
		all = append(all, entries...)
	}
	return all
}

// silent fails if the cursor has anything to read.
func silent(t testing.TB, c journal.Cursor) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if entries, err := c.Read(ctx, 10); err == nil {
		t.Errorf("there is more to read:\n%s", show(entries))
	}
}

// show is a line for each entry: sequence, operation, id, and how much was trimmed.
// Runs are left out that depend on the time, but for an "r" where something is delivered
// again.
func show(entries []journal.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		if e.Event.Run > 1e12 {
			e.Event.SetRun(0)
		}
		fmt.Fprintf(&b, "%d %s %s", e.Seq, e.Event.Op, e.Event.ID)
		if e.Event.Redelivered {
			b.WriteString(":r")
		}
		if e.Event.Gap != nil {
			fmt.Fprintf(&b, " %s %d", e.Event.Gap.Reason, e.Event.Gap.Trimmed)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// describe is show for what was expected.
func describe(lines ...string) string { return strings.Join(append(lines, ""), "\n") }
