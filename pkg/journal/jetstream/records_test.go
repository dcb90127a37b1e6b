package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// freezer holds back what its connections write, as a frozen process does: when it
// thaws, everything arrives, late.
type freezer struct {
	net.Conn
	gate *sync.RWMutex
}

func (f freezer) Write(b []byte) (int, error) {
	f.gate.RLock()
	defer f.gate.RUnlock()
	return f.Conn.Write(b)
}

// frozenWriter is a journal that was made to freeze between the fence's answer and
// the arrival of what it sends.
type frozenWriter struct {
	*jetstream.Journal
	gate   sync.RWMutex
	passed chan struct{} // the fence was asked
}

func openFrozen(t *testing.T, h *host) *frozenWriter {
	t.Helper()
	w := &frozenWriter{passed: make(chan struct{}, 1)}
	h.filter = func(conn net.Conn) net.Conn { return freezer{conn, &w.gate} }
	w.Journal = h.open(func(c *jetstream.Config) {
		c.Fence = func() error {
			select {
			case w.passed <- struct{}{}:
			default:
			}
			return nil
		}
	})
	h.filter = nil
	return w
}

// freeze lets the writer call do, which gets past the fence and no further; thaw
// lets go what was held back.
func (w *frozenWriter) freeze(t *testing.T, do func() error) (thaw func() error) {
	t.Helper()
	w.gate.Lock()
	select {
	case <-w.passed:
	default:
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case <-w.passed:
	case <-time.After(15 * time.Second):
		t.Fatal("the fence was not asked")
	}
	return func() error {
		w.gate.Unlock()
		return <-done
	}
}

// What a frozen process sent before its successor opened the journal changes no
// mark, whether the successor has written one since or not.
func TestFrozenMark(t *testing.T) {
	const target = "core/configmaps"
	for name, test := range map[string]struct {
		marks []string // of the successor
		want  string
	}{
		"successor has not written": {want: "first"},
		"successor has written":     {marks: []string{"second", "third"}, want: "third"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			old := openFrozen(t, h)
			if err := old.Mark(t.Context(), target, []byte("first")); err != nil {
				t.Fatal(err)
			}
			thaw := old.freeze(t, func() error { return old.Mark(t.Context(), target, []byte("late")) })
			successor := h.open()
			for _, mark := range test.marks {
				if err := successor.Mark(t.Context(), target, []byte(mark)); err != nil {
					t.Fatal(err)
				}
			}
			if err := thaw(); !errors.Is(err, jetstream.ErrFenced) {
				t.Errorf("the late mark: %v, want %v", err, jetstream.ErrFenced)
			}
			wantCheckpoint(t, successor, test.want, false)
			if err := successor.Mark(t.Context(), target, []byte("last")); err != nil {
				t.Errorf("the successor: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			if err := old.Append(ctx, []event.Event{{}}); !errors.Is(err, jetstream.ErrFenced) {
				t.Errorf("the late writer goes on: %v", err)
			}
		})
	}
}

// The same of a sink's position, of which nobody waits for the answer: the next
// call says it, also one that waits for events.
func TestFrozenPosition(t *testing.T) {
	h := newHost(t)
	old := openFrozen(t, h)
	var now clock
	late := mustOpen(t, old, "out", journal.FromNow)
	for i := range 3 {
		mustAppend(t, old, (&object{name: string(rune('a' + i))}).event(&now, event.Added))
	}
	mustCommit(t, late, 1)
	var at struct{ Last uint64 }
	until(t, "the position is saved", func() bool {
		record(t, h, "sink.out", &at)
		return at.Last == 1
	})
	thaw := old.freeze(t, func() error { return late.Commit(t.Context(), 2) })
	successor := h.open()
	c := mustOpen(t, successor, "out", journal.FromNow)
	mustCommit(t, c, 3)
	until(t, "the successor's position is saved", func() bool {
		record(t, h, "sink.out", &at)
		return at.Last == 3
	})
	if err := thaw(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	var err error
	for err == nil {
		_, err = late.Read(ctx, 10)
	}
	if !errors.Is(err, jetstream.ErrFenced) {
		t.Errorf("the late reader: %v, want %v", err, jetstream.ErrFenced)
	}
	if record(t, h, "sink.out", &at); at.Last != 3 {
		t.Errorf("the position went from 3 to %d", at.Last)
	}
}

// Opening claims every record once, however many there are: what it writes must not
// come back to it as another record.
func TestOpeningClaimsOnce(t *testing.T) {
	h := newHost(t)
	const targets = 700 // more than are read at a time
	marks(t, h, targets)
	was := written(t, h)
	h.open()
	if got := written(t, h) - was; got != targets {
		t.Errorf("opening a journal with %d records wrote %d", targets, got)
	}
}

// slow is a connection to a server that is far away: each write takes a while.
type slow struct{ net.Conn }

func (s slow) Write(b []byte) (int, error) {
	<-time.After(100 * time.Millisecond)
	return s.Conn.Write(b)
}

// Opening may take longer than one answer of the server: each record is claimed by a request.
func TestOpeningTakesItsTime(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	marks(t, h, 60)
	h.filter = func(conn net.Conn) net.Conn { return slow{conn} }
	c := h.config()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	j, err := jetstream.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
}

// An attempt to open the journal does not claim again what an earlier one has claimed.
func TestOpeningContinues(t *testing.T) {
	t.Parallel()
	const targets = 20
	h := newHost(t)
	marks(t, h, targets)
	was := written(t, h)
	h.muted("INFORMD_STATE.target.example_com%2Fr15").Store(1)
	h.open()
	if got := written(t, h) - was; got != targets+1 {
		t.Errorf("after one lost answer, opening a journal with %d records wrote %d, want one more", targets, got)
	}
}

// marks writes records of so many targets.
func marks(t *testing.T, h *host, targets int) {
	t.Helper()
	j := h.open()
	for i := range targets {
		if err := j.Mark(t.Context(), fmt.Sprintf("example.com/r%d", i), []byte("mark")); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, j)
}

// written is how many records were ever written.
func written(t *testing.T, h *host) uint64 {
	t.Helper()
	stream, err := h.shared().Stream(t.Context(), "INFORMD_STATE")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}
