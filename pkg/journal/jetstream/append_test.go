package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// line is a connection whose client can be made deaf, and that can be cut.
type line struct {
	net.Conn
	deaf *atomic.Bool
}

func (l *line) Read(p []byte) (int, error) {
	for {
		n, err := l.Conn.Read(p)
		if err != nil || !l.deaf.Load() {
			return n, err
		}
	}
}

// lines are all connections that were made since listen.
type lines struct {
	deaf atomic.Bool
	mu   sync.Mutex
	open []net.Conn
}

func (h *host) tap() *lines {
	l := &lines{}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.filter = func(conn net.Conn) net.Conn {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, conn)
		return &line{Conn: conn, deaf: &l.deaf}
	}
	return l
}

func (l *lines) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.open {
		_ = conn.Close() // it may be closed already
	}
	l.open = nil
}

func messages(t *testing.T, h *host) uint64 {
	t.Helper()
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

// TestLostAcknowledgement loses the connection between the storing of events and
// the receipt of the acknowledgements.
func TestLostAcknowledgement(t *testing.T) {
	h := newHost(t)
	h.shared()
	l := h.tap()
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	first := []event.Event{a.event(&now, event.Added), b.event(&now, event.Added)}
	mustAppend(t, j, first...)
	l.deaf.Store(true)
	done := make(chan error, 1)
	go func() {
		done <- j.Append(t.Context(), []event.Event{a.event(&now, event.Modified), b.event(&now, event.Modified), a.event(&now, event.Deleted)})
	}()
	until(t, "two events are stored", func() bool { return messages(t, h) == 4 })
	l.deaf.Store(false)
	l.cut()
	if err := <-done; err != nil {
		t.Fatalf("Append: %v", err)
	}
	if got := messages(t, h); got != 5 {
		t.Errorf("%d messages, want 5", got)
	}
	mustAppend(t, j, b.event(&now, event.Modified))
	want := describe("1 added a-1:1", "2 added b-2:2", "3 modified a-1:3", "4 modified b-2:4", "5 deleted a-1:deleted", "6 modified b-2:6")
	if got := show(read(t, c, 6)); got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
}

// TestResend appends again what may or may not be there.
func TestResend(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a := &object{name: "a"}
	events := []event.Event{a.event(&now, event.Added), a.event(&now, event.Modified)}
	mustAppend(t, j, events...)
	mustAppend(t, j, events[1:]...)
	mustAppend(t, h.open(), events[1]) // one that does not know what is there
	if got := messages(t, h); got != 2 {
		t.Errorf("%d messages, want 2", got)
	}
}

// TestGivenUp cancels an append whose events are on their way; nobody else appends.
func TestGivenUp(t *testing.T) {
	h := newHost(t)
	h.shared()
	l := h.tap()
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	e := a.event(&now, event.Added)
	l.deaf.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Append(ctx, []event.Event{e}) }()
	until(t, "the event is stored", func() bool { return messages(t, h) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Append = %v", err)
	}
	l.deaf.Store(false)
	l.cut()
	if got := read(t, c, 1); got[0].Event.ID != e.ID || got[0].Seq != 1 {
		t.Errorf("read %s", show(got))
	}
	mustAppend(t, j, e)
	if got := messages(t, h); got != 1 {
		t.Errorf("%d messages, want 1", got)
	}
}

// TestLateWriter has two writers at work.
func TestLateWriter(t *testing.T) {
	h := newHost(t)
	old, young := h.open(), h.open()
	var now clock
	a := &object{name: "a"}
	mustAppend(t, old, a.event(&now, event.Added))
	if _, err := young.Restore(t.Context(), "core/configmaps", func(event.Event) {}); err != nil {
		t.Fatal(err)
	}
	late := a.event(&now, event.Modified)
	mustAppend(t, young, late, a.event(&now, event.Modified))
	stale := late
	stale.ID = "a-1:2:left:2"
	stale.Op = event.Left
	if err := old.Append(t.Context(), []event.Event{stale}); !errors.Is(err, jetstream.ErrFenced) {
		t.Errorf("the late writer's Append = %v", err)
	}
	// What it says about other objects is stored, and read by the other one, too.
	c := mustOpen(t, young, "bus", journal.FromNow)
	b := &object{name: "b"}
	mustAppend(t, old, b.event(&now, event.Added))
	mustAppend(t, young, a.event(&now, event.Modified))
	if got, want := show(read(t, c, 2)), describe("4 added "+b.uid+":4", "5 modified a-1:5"); got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
}

// TestGone removes acknowledged events behind the journal's back.
func TestGone(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(t.Context(), []event.Event{a.event(&now, event.Modified)}); !errors.Is(err, jetstream.ErrLost) {
		t.Errorf("Append = %v", err)
	}
}

func TestFence(t *testing.T) {
	h := newHost(t)
	var down atomic.Bool
	follower := errors.New("not the leader any more")
	j := h.open(func(c *jetstream.Config) {
		c.Fence = func() error {
			if down.Load() {
				return follower
			}
			return nil
		}
	})
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	down.Store(true)
	if err := j.Append(t.Context(), []event.Event{a.event(&now, event.Modified)}); !errors.Is(err, follower) {
		t.Errorf("Append = %v", err)
	}
	if err := j.Mark(t.Context(), "core/configmaps", nil); !errors.Is(err, follower) {
		t.Errorf("Mark = %v", err)
	}
	if _, err := c.Read(t.Context(), 1); !errors.Is(err, follower) {
		t.Errorf("Read = %v", err)
	}
	if got := messages(t, h); got != 1 {
		t.Errorf("%d messages, want 1", got)
	}
}

// logged is a log to look at.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFull fills the stream up and makes room again.
func TestFull(t *testing.T) {
	h := newHost(t)
	var log logged
	j := h.open(func(c *jetstream.Config) { c.MaxBytes, c.Logger = 64<<10, slog.New(slog.NewTextHandler(&log, nil)) })
	var now clock
	done := make(chan error, 1)
	const n = 100
	go func() {
		for i := range n {
			o := &object{name: fmt.Sprint("o", i)}
			e := o.event(&now, event.Added)
			e.Data = []byte(`{"object":"` + strings.Repeat("x", 2000) + `"}`)
			if err := j.Append(t.Context(), []event.Event{e}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	blocked := 0
	for len(done) == 0 {
		until(t, "the append is blocked or done", func() bool { return j.Stats().Blocked == 1 || len(done) > 0 })
		if blocked += j.Stats().Blocked; blocked == 1 {
			if got := j.Stats().LastSeq; got < 20 || got > 40 {
				t.Errorf("full after %d events of 2 KB, the bound is 64 KiB", got)
			}
		}
		if err := stream.Purge(t.Context(), js.WithPurgeKeep(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil || blocked == 0 {
		t.Errorf("Append = %v after it was blocked %d times", err, blocked)
	}
	for _, line := range []string{"journal full", "journal recovered"} {
		if got := strings.Count(log.String(), line); got == 0 || got > blocked {
			t.Errorf("%q was logged %d times, the journal was full %d times", line, got, blocked)
		}
	}
	if got := j.Stats(); got.LastSeq != n || got.Oversize != 0 {
		t.Errorf("stats = %+v", got)
	}
}

// noise is what can hardly be compressed.
func noise(bytes int) []byte {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rand.IntN(64)]
	}
	return b
}

// TestOversize goes through the ladder with a server that takes 64 KiB.
func TestOversize(t *testing.T) {
	h := newHostWith(t, 64<<10)
	j := h.open()
	var now clock
	bodies := map[string]string{
		"plain": "small", "compressed": strings.Repeat("compressible ", 10_000), "object": string(noise(200 << 10)),
	}
	var events []event.Event
	for _, name := range []string{"plain", "compressed", "object"} {
		e := (&object{name: name}).event(&now, event.Added)
		e.Data = []byte(`{"object":"` + bodies[name] + `"}`)
		events = append(events, e)
	}
	mustAppend(t, j, events...)
	for i, want := range []string{"", "gzip", "nats-object://INFORMD_OBJECTS/object-3:3"} {
		stream, err := h.shared().Stream(t.Context(), "INFORMD")
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if ref := m.Header.Get("ce-dataref"); ref != "" && len(m.Data) == 0 {
			if ref != want {
				t.Errorf("reference %s, want %s", ref, want)
			}
		} else if got := m.Header.Get("content-encoding"); got != want {
			t.Errorf("message %d has the encoding %q, want %q", i+1, got, want)
		}
	}
	mustClose(t, j)
	j = h.open()
	entries := read(t, mustOpen(t, j, "bus", journal.FromSnapshot), 3)
	for i, e := range events {
		if string(entries[i].Event.Data) != string(e.Data) {
			t.Errorf("%s is read back with %d bytes, want %d", e.Name, len(entries[i].Event.Data), len(e.Data))
		}
		last, ok, err := j.Last(t.Context(), &e)
		if err != nil || !ok || string(last.Data) != string(e.Data) {
			t.Errorf("Last of %s has %d bytes (%v, %v), want %d", e.Name, len(last.Data), ok, err, len(e.Data))
		}
	}
	if got := j.Stats().Oversize; got != 0 {
		t.Errorf("oversize = %d", got)
	}
}

// TestOversizeForGood has an object store that cannot be made.
func TestOversizeForGood(t *testing.T) {
	h := newHostWith(t, 64<<10)
	if _, err := h.shared().CreateStream(t.Context(), js.StreamConfig{Name: "MINE", Subjects: []string{"$O.INFORMD_OBJECTS.>"}}); err != nil {
		t.Fatal(err)
	}
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	e := a.event(&now, event.Added)
	e.Data = noise(200 << 10)
	mustAppend(t, j, e, a.event(&now, event.Modified))
	got := read(t, c, 2)
	if got[0].Event.Data != nil || got[0].Event.ID != e.ID || got[1].Event.Data == nil {
		t.Errorf("entries %s with %d and %d bytes", show(got), len(got[0].Event.Data), len(got[1].Event.Data))
	}
	if got := j.Stats().Oversize; got != 1 {
		t.Errorf("oversize = %d, want 1", got)
	}
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetMsg(t.Context(), 1); err != nil || m.Header.Get("ce-oversize") != "true" {
		t.Errorf("message %+v, %v", m, err)
	}
}

// leaderless is a connection to a server on which the object store has no leader at times.
type leaderless struct {
	net.Conn
	missing *atomic.Bool
	refused *atomic.Int32
}

func (l leaderless) Write(b []byte) (int, error) {
	if asked := []byte("$JS.API.DIRECT.GET.OBJ_INFORMD_OBJECTS."); l.missing.Load() && bytes.Contains(b, asked) {
		l.refused.Add(1)
		return l.Conn.Write(bytes.ReplaceAll(b, asked, []byte("$JS.OUT.DIRECT.GET.OBJ_INFORMD_OBJECTS.")))
	}
	return l.Conn.Write(b)
}

// TestObjectStoreUnavailable: an object store that refuses all at once for some seconds costs no
// object.
func TestObjectStoreUnavailable(t *testing.T) {
	h := newHostWith(t, 64<<10)
	var missing atomic.Bool
	var refused atomic.Int32
	h.filter = func(conn net.Conn) net.Conn { return leaderless{conn, &missing, &refused} }
	j := h.open()
	var now clock
	e := (&object{name: "a"}).event(&now, event.Added)
	e.Data = noise(200 << 10)
	missing.Store(true)
	done := make(chan error, 1)
	go func() { done <- j.Append(t.Context(), []event.Event{e}) }()
	until(t, "the object is refused often", func() bool { return refused.Load() >= 12 || len(done) > 0 }) // about 3 s
	missing.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	wantBody(t, h.open(), e)
}

// TestObjectStoreDeleted: an object store that was deleted is created again.
func TestObjectStoreDeleted(t *testing.T) {
	h := newHostWith(t, 64<<10)
	j := h.open()
	var now clock
	first, second := (&object{name: "a"}).event(&now, event.Added), (&object{name: "b"}).event(&now, event.Added)
	first.Data, second.Data = noise(200<<10), noise(200<<10)
	mustAppend(t, j, first)
	if err := h.shared().DeleteObjectStore(t.Context(), "INFORMD_OBJECTS"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := j.Append(ctx, []event.Event{second}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	wantBody(t, h.open(), second)
}

// wantBody wants the last event of an object with its data.
func wantBody(t *testing.T, j *jetstream.Journal, e event.Event) {
	t.Helper()
	last, ok, err := j.Last(t.Context(), &e)
	if err != nil || !ok || !bytes.Equal(last.Data, e.Data) {
		t.Errorf("Last of %s has %d bytes (%v, %v), want %d", e.Name, len(last.Data), ok, err, len(e.Data))
	}
	if got := j.Stats().Oversize; got != 0 {
		t.Errorf("oversize = %d", got)
	}
}

// TestObjectsGoWithTheirEvents removes the bodies of events that history has lost.
func TestObjectsGoWithTheirEvents(t *testing.T) {
	h := newHostWith(t, 64<<10)
	j := h.open(history(2))
	var now clock
	a := &object{name: "a"}
	for i := range 3 {
		e := a.event(&now, []event.Op{event.Added, event.Modified, event.Modified}[i])
		e.Data = noise(200 << 10)
		mustAppend(t, j, e)
	}
	names := func() (names []string) {
		store, err := h.shared().ObjectStore(t.Context(), "INFORMD_OBJECTS")
		if err != nil {
			t.Fatal(err)
		}
		listed, err := store.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range listed {
			names = append(names, o.Name)
		}
		slices.Sort(names)
		return names
	}
	if err := j.SweepObjects(t.Context(), time.Hour); err != nil || len(names()) != 3 {
		t.Errorf("objects %v, %v; want all within their grace", names(), err)
	}
	if err := j.SweepObjects(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got, want := names(), []string{"a-1:2", "a-1:3"}; !slices.Equal(got, want) {
		t.Errorf("objects %v, want %v", got, want)
	}
}
