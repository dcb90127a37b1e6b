package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// mute loses the answers to the next requests to a subject: the server takes the requests.
type mute struct {
	net.Conn
	subject string
	left    *atomic.Int32
}

func (m mute) Write(b []byte) (int, error) {
	data := bytes.Clone(b)
	for at := 0; m.left.Load() > 0; m.left.Add(-1) {
		found := bytes.Index(data[at:], []byte("PUB "+m.subject+" _INBOX."))
		if found < 0 {
			break
		}
		at += found + len("PUB "+m.subject+" _INBO")
		data[at] = 'Z'
	}
	return m.Conn.Write(data)
}

// muted has connections that are made from now on lose answers while left is above zero.
func (h *host) muted(subject string) (left *atomic.Int32) {
	left = new(atomic.Int32)
	h.filter = func(conn net.Conn) net.Conn { return mute{conn, subject, left} }
	h.t.Cleanup(func() { left.Store(0) })
	return left
}

func (h *host) remove(streams ...string) {
	h.t.Helper()
	for _, s := range streams {
		if err := h.shared().DeleteStream(h.t.Context(), s); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestOwned: only what another informd has written or created proves that it had the journal.
func TestOwned(t *testing.T) {
	for name, tt := range map[string]struct {
		// accident happens to the streams; it returns when the journal has failed, if it does.
		accident func(t *testing.T, h *host, j *jetstream.Journal)
		fenced   bool
	}{
		"nothing": {accident: func(*testing.T, *host, *jetstream.Journal) {}},
		"state stream deleted": {accident: func(t *testing.T, h *host, j *jetstream.Journal) {
			h.remove("INFORMD_STATE")
			failed(t, j)
		}},
		"both deleted": {accident: func(t *testing.T, h *host, j *jetstream.Journal) {
			h.remove("INFORMD", "INFORMD_STATE")
			failed(t, j)
		}},
		"both deleted and created again here": {accident: func(t *testing.T, h *host, j *jetstream.Journal) {
			h.remove("INFORMD", "INFORMD_STATE")
			failed(t, j)
			mustClose(t, j)
			next := h.open(func(c *jetstream.Config) { c.Replaces = j })
			if err := next.Bind(t.Context(), "cluster"); err != nil {
				t.Fatal(err)
			}
			if err := next.Owned(t.Context()); err != nil {
				t.Errorf("the next: %v", err)
			}
		}},
		"events deleted and created again here": {accident: func(t *testing.T, h *host, j *jetstream.Journal) {
			h.remove("INFORMD")
			failed(t, j)
			mustClose(t, j)
			h.open(func(c *jetstream.Config) { c.Replaces = j })
		}},
		"events created again by another": {fenced: true, accident: func(t *testing.T, h *host, j *jetstream.Journal) {
			h.remove("INFORMD", "INFORMD_STATE")
			failed(t, j)
			h.open()
			h.remove("INFORMD_STATE") // its records went with it
		}},
		"both created again by another": {fenced: true, accident: func(t *testing.T, h *host, j *jetstream.Journal) {
			h.remove("INFORMD", "INFORMD_STATE")
			failed(t, j)
			if err := h.open().Bind(t.Context(), "cluster"); err != nil {
				t.Fatal(err)
			}
		}},
		"opened by another": {fenced: true, accident: func(_ *testing.T, h *host, _ *jetstream.Journal) { h.open() }},
		"a message of an operator": {accident: func(t *testing.T, h *host, _ *jetstream.Journal) {
			if _, err := h.shared().Publish(t.Context(), "INFORMD_STATE.note", []byte("maintenance")); err != nil {
				t.Fatal(err)
			}
		}},
		"state purged by an operator": {accident: func(t *testing.T, h *host, _ *jetstream.Journal) {
			s, err := h.shared().Stream(t.Context(), "INFORMD_STATE")
			if err == nil {
				err = s.Purge(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			j := h.open()
			if err := j.Mark(t.Context(), "core/configmaps", []byte("mark")); err != nil {
				t.Fatal(err)
			}
			tt.accident(t, h, j)
			if err := j.Owned(t.Context()); errors.Is(err, jetstream.ErrFenced) != tt.fenced || err != nil && !tt.fenced {
				t.Errorf("Owned: %v, fenced %t wanted", err, tt.fenced)
			}
		})
	}
}

// failed waits until the journal knows that a stream is missing.
func failed(t *testing.T, j *jetstream.Journal) {
	t.Helper()
	select {
	case <-j.Failed():
	case <-time.After(15 * time.Second):
		t.Fatal("the journal does not notice")
	}
	if !errors.Is(j.Failure(), jetstream.ErrMissing) {
		t.Fatalf("the journal failed: %v", j.Failure())
	}
}

// TestClosedConnection: the client library closes a connection for good after MaxReconnects, or after
// two refusals of its credentials. The journal fails, so that readers and writers see the end.
func TestClosedConnection(t *testing.T) {
	h := newHost(t)
	conn := h.connect()
	j := h.open(func(c *jetstream.Config) { c.Conn = conn })
	cursor := mustOpen(t, j, "sink", journal.FromNow)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	calls := []func() error{
		func() error { _, err := cursor.Read(ctx, 1); return err },
		func() error {
			conn.Close()
			return j.Append(ctx, []event.Event{(&object{name: "a"}).event(&clock{}, event.Added)})
		},
		func() error { conn.Close(); return j.Mark(ctx, "core/configmaps", nil) },
		func() error {
			conn.Close()
			c := h.config()
			c.Conn = conn
			_, err := jetstream.Open(ctx, c)
			return err
		},
	}
	ended := make(chan error)
	for _, call := range calls {
		go func() { ended <- call() }()
	}
	for range calls {
		if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("error %v, want %v", err, nats.ErrConnectionClosed)
		}
	}
	select {
	case <-j.Failed():
	case <-ctx.Done():
		t.Fatal("the journal does not notice")
	}
	if !errors.Is(j.Failure(), nats.ErrConnectionClosed) {
		t.Errorf("failure %v", j.Failure())
	}
}

// TestLostAnswers: a question whose answer is lost, as in an election, holds the caller up
// for less than the time that a slow server has for its answer.
func TestLostAnswers(t *testing.T) {
	const bound = 3 * time.Second // 0.5 s on an idle machine, 5 s for a slow server
	h := newHost(t)
	left := h.muted("$JS.API.STREAM.INFO.INFORMD_STATE")
	j := h.open()
	mustAppend(t, j, (&object{name: "a"}).event(&clock{}, event.Added))
	for name, ask := range map[string]func(ctx context.Context){
		"Owned": func(ctx context.Context) {
			if err := j.Owned(ctx); err == nil {
				t.Error("Owned knows it without an answer")
			}
		},
		"look": j.Look,
	} {
		until(t, name+" gives up early", func() bool { // not each time on a busy machine
			// More than one, because the journal polls the stream every few seconds, too.
			const answers = 100
			left.Store(answers)
			began := time.Now()
			ask(t.Context())
			took := time.Since(began)
			if left.Swap(0) == answers {
				t.Errorf("%s lost no answer", name)
			}
			until(t, "Owned gets an answer", func() bool { return j.Owned(t.Context()) == nil })
			return took < bound
		})
	}
}

// TestCreationAnswerLost: a stream that the server has created, but whose answer was lost,
// is one that takes the place of a deleted one.
func TestCreationAnswerLost(t *testing.T) {
	h := newHost(t)
	left := h.muted("$JS.API.STREAM.CREATE.INFORMD")
	left.Store(1)
	j := h.open(func(c *jetstream.Config) { c.Existed = true })
	if left.Load() != 0 {
		t.Fatal("no answer was lost")
	}
	wantCheckpoint(t, j, "", true)
}

// TestLossIsLeftToTheNextProcess: a process that has created the missing stream and dies
// before a target has a mark leaves it to the next one to declare the loss.
func TestLossIsLeftToTheNextProcess(t *testing.T) {
	h := newHost(t)
	existed := func(c *jetstream.Config) { c.Existed = true }
	mustClose(t, h.open(existed))
	j := h.open(existed)
	wantCheckpoint(t, j, "", true)
	if err := j.Mark(t.Context(), "core/configmaps", []byte("here")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	wantCheckpoint(t, h.open(existed), "here", false)
}
