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
	before := h.open()
	for i := range targets {
		if err := before.Mark(t.Context(), fmt.Sprintf("example.com/r%d", i), []byte("mark")); err != nil {
			t.Fatal(err)
		}
	}
	written := func() uint64 {
		stream, err := h.shared().Stream(t.Context(), "INFORMD_STATE")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.LastSeq
	}
	was := written()
	h.open()
	if got := written() - was; got != targets {
		t.Errorf("opening a journal with %d records wrote %d", targets, got)
	}
}
