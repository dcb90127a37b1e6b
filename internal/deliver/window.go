package deliver

import (
	"context"
	"sync"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// The bounds of what the lanes of one sink have under way. They bound what is
// delivered twice after a crash, too. A single event may exceed the bytes.
const (
	maxEvents = 4096
	maxBytes  = 8 << 20
)

// windowItem is one event on its way through a lane.
type windowItem struct {
	Event event.Event // empty once it is done
	size  int
	// end is the sequence that may be committed when this event and all before
	// it are done. The window's lock guards it, and done.
	end  uint64
	done bool
}

// laneWindow is what is under way in all lanes of a sink, in the order of the
// journal. Events are done in any order, but only a contiguous prefix of the
// journal is ever committed. One goroutine adds and waits; any may finish.
type laneWindow struct {
	mu    sync.Mutex
	fifo  []*windowItem
	bytes int
	// committing counts the commits that are under way.
	committing int
	freed      chan struct{} // capacity 1: something left the window
}

// newWindow makes an empty window.
func newWindow() *laneWindow { return &laneWindow{freed: make(chan struct{}, 1)} }

// Add takes an event in. It waits before while the window is full.
func (w *laneWindow) Add(ctx context.Context, e *journal.Entry) (*windowItem, error) {
	item := &windowItem{Event: e.Event, size: e.Event.Size(), end: e.Seq}
	err := w.wait(ctx, func() bool {
		room := len(w.fifo) < maxEvents && w.bytes+item.size <= maxBytes
		if len(w.fifo) > 0 && !room {
			return false
		}
		w.fifo = append(w.fifo, item)
		w.bytes += item.size
		return true
	})
	return item, err
}

// Skip passes over a sequence that is not delivered. It reports whether nothing
// is under way before it, so that it can be committed at once.
func (w *laneWindow) Skip(seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.fifo) == 0 {
		return true
	}
	last := w.fifo[len(w.fifo)-1]
	last.end = max(last.end, seq)
	return false
}

// Finish marks items as done. If the contiguous prefix grew by that, it calls commit with
// the sequence that may be committed now. The window is not empty until that has returned: a
// rewind must not be undone by a commit of before.
func (w *laneWindow) Finish(items []*windowItem, commit func(seq uint64)) {
	seq, grew := w.pass(items)
	if !grew {
		return
	}
	commit(seq)
	w.mu.Lock()
	w.committing--
	w.mu.Unlock()
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// pass takes what is done off the window, up to the first item that is not. If that is
// anything, a commit of seq is under way.
func (w *laneWindow) pass(items []*windowItem) (seq uint64, grew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, item := range items {
		item.done = true
		item.Event = event.Event{}
	}
	for len(w.fifo) > 0 && w.fifo[0].done {
		seq, grew = max(seq, w.fifo[0].end), true // 0 is no place in the journal
		w.bytes -= w.fifo[0].size
		w.fifo[0] = nil
		w.fifo = w.fifo[1:]
	}
	if grew {
		w.committing++
	}
	return seq, grew
}

// Empty waits until nothing is under way.
func (w *laneWindow) Empty(ctx context.Context) error {
	return w.wait(ctx, func() bool { return len(w.fifo) == 0 && w.committing == 0 })
}

// wait calls ready, with the lock held, each time something left the window,
// until it says yes or ctx ends.
func (w *laneWindow) wait(ctx context.Context, ready func() bool) error {
	for {
		w.mu.Lock()
		ok := ready()
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-w.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
