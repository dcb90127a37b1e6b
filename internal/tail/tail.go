// Package tail shows live events to people: it keeps the newest events in memory while
// somebody watches, once for all readers. A reader that does not keep up misses events, so
// that no reader costs the stream anything but its copy of each event.
package tail

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
)

const (
	// MaxReaders bounds the readers at a time.
	MaxReaders = 64
	// keptBytes and keptEvents bound the events in memory, for all readers together.
	keptBytes  = 16 << 20
	keptEvents = 1 << 14
)

// ErrTooMany says that there are MaxReaders readers already.
var ErrTooMany = fmt.Errorf("%d readers have a tail open already: close one", MaxReaders)

// Line is an event, and its CloudEvents JSON without a newline, with what a terminal would obey as
// escapes. Both are shared by all readers: do not change them.
type Line struct {
	Event event.Event
	JSON  []byte
}

// Feed takes events and hands them to readers. Its zero value is ready. Methods may be called
// concurrently.
type Feed struct {
	// open is how many readers there are. It changes with mu held.
	open atomic.Int32

	mu    sync.Mutex
	lines []*Line
	first uint64 // the number of lines[0]
	bytes int
	// news is closed when lines are added.
	news chan struct{}
}

// Readers returns how many readers are open.
func (f *Feed) Readers() int { return int(f.open.Load()) }

// Publish shows events to the readers. It copies them, never blocks, and costs nothing
// without readers.
func (f *Feed) Publish(events []event.Event) {
	if f.open.Load() == 0 {
		return
	}
	lines := make([]Line, len(events))
	added := make([]*Line, len(events))
	for i := range events {
		text := events[i].AppendJSON(make([]byte, 0, events[i].Size()+attributeBytes))
		added[i] = &lines[i]
		lines[i] = Line{Event: events[i], JSON: display.JSON(text)}
		if n := len(events[i].Data); n > 0 {
			end := len(text) - 1 // the data ends before the last brace
			lines[i].Event.Data = text[end-n : end : end]
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, added...)
	for i := range lines {
		f.bytes += len(lines[i].JSON)
	}
	old := 0
	for ; f.bytes > keptBytes || len(f.lines)-old > keptEvents; old++ {
		f.bytes -= len(f.lines[old].JSON)
		f.lines[old] = nil
	}
	f.lines = f.lines[old:]
	f.first += uint64(old)
	f.wake()
}

// attributeBytes is about what the attributes of an event take as JSON.
const attributeBytes = 700

// wake wakes the readers; f.mu is held.
func (f *Feed) wake() {
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

// Reader is one who watches. It belongs to one goroutine.
type Reader struct {
	feed *Feed
	next uint64
	// wants is asked for each event before it is returned.
	wants func(e *event.Event) bool
	// Missed counts the events that the reader did not get: those of any kind that it was too late for,
	// and those that it wanted beyond the limit of Next.
	Missed uint64
}

// Open returns a reader of the events from now on that wants returns true for; nil wants all.
// Wants is called by [Reader.Next] only. The caller must close the reader.
func (f *Feed) Open(wants func(e *event.Event) bool) (*Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open.Load() >= MaxReaders {
		return nil, ErrTooMany
	}
	f.open.Add(1)
	return &Reader{feed: f, next: f.first + uint64(len(f.lines)), wants: wants}, nil
}

// Close ends the reader. The last one frees the events.
func (r *Reader) Close() {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open.Add(-1) == 0 {
		f.first += uint64(len(f.lines))
		f.lines, f.bytes = nil, 0
	}
}

// atOnce bounds what a reader without a limit gets at once, in bytes: it keeps that in memory while it is slow.
const atOnce = 1 << 20

// Next waits for events that the reader wants, and returns some, at least one. With a limit these are the newest
// ones of all that the feed keeps; 0 is no limit. Its error is that of ctx.
func (r *Reader) Next(ctx context.Context, limit int) ([]*Line, error) {
	for {
		lines, news := r.take()
		most := atOnce
		if limit > 0 {
			most = math.MaxInt
		}
		found := r.wanted(ctx, lines, most)
		if more := len(found) - limit; limit > 0 && more > 0 {
			r.Missed += uint64(more)
			found = lines[:copy(lines, found[more:])]
		}
		switch {
		case len(found) > 0:
			clear(lines[len(found):])
			return found, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		if news == nil {
			continue
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// wanted returns the lines that the reader wants, up to about most bytes of them: the rest is taken again. It overwrites lines.
func (r *Reader) wanted(ctx context.Context, lines []*Line, most int) []*Line {
	found, size := lines[:0], 0
	for n, l := range lines {
		if ctx.Err() != nil || size >= most { // conditions take time
			r.next -= uint64(len(lines) - n)
			break
		}
		if r.wants == nil || r.wants(&l.Event) {
			found, size = append(found, l), size+len(l.JSON)
		}
	}
	return found
}

// take returns the next lines, or if there are none, what is closed when there are some.
func (r *Reader) take() ([]*Line, <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.next < f.first {
		r.Missed += f.first - r.next
		r.next = f.first
	}
	if lines := slices.Clone(f.lines[r.next-f.first:]); len(lines) > 0 {
		r.next += uint64(len(lines))
		return lines, nil
	}
	if f.news == nil {
		f.news = make(chan struct{})
	}
	return nil, f.news
}
