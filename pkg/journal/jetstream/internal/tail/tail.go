package tail

import (
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// Tail is the newest events of the log, without a missing one in between. Methods may be called
// concurrently.
//
// If an acknowledgement shows that unknown messages are in between, the tail starts again
// behind them, and cursors that are not there yet read the stream.
type Tail struct {
	limit int // bytes

	mu      sync.Mutex
	first   uint64 // the sequence of slots[0]
	last    uint64 // the log is known to reach so far; slots are first..last
	acked   uint64 // the highest sequence that an acknowledgement had
	slots   []slot
	bytes   int
	readers map[chan<- struct{}]struct{}
}

type slot struct {
	event  event.Event
	at     time.Time // when it was acknowledged
	copyOf uint64    // of a copy: the sequence of the original
}

// New returns the tail of a log that ends at the sequence last. Limit bounds the events in
// bytes of [event.Event.Size].
func New(limit int, last uint64) *Tail {
	return &Tail{limit: limit, first: last + 1, last: last, readers: map[chan<- struct{}]struct{}{}}
}

// Push adds an event that was acknowledged with seq; copyOf is the sequence of the original of
// a copy, else 0. It returns false if acknowledgements do not come in the order of the log: then
// the stream is not the same any more.
func (t *Tail) Push(seq uint64, e event.Event, copyOf uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq <= t.acked {
		return false
	}
	t.acked = seq
	if seq <= t.last {
		return true // Reach came first
	}
	if seq != t.last+1 {
		t.restart(seq)
	}
	t.slots = append(t.slots, slot{event: e, at: time.Now(), copyOf: copyOf})
	t.last = seq
	t.bytes += e.Size()
	for t.bytes > t.limit && len(t.slots) > 1 {
		t.bytes -= t.slots[0].event.Size()
		t.slots[0] = slot{}
		t.slots = t.slots[1:]
		t.first++
	}
	t.wake()
	return true
}

// Reach notes that the log reaches at least seq, whoever wrote that.
func (t *Tail) Reach(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq > t.last {
		t.restart(seq + 1)
		t.last = seq
		t.wake()
	}
}

// restart empties the tail, which continues with the sequence first.
func (t *Tail) restart(first uint64) {
	t.slots, t.bytes, t.first = nil, 0, first
}

func (t *Tail) wake() {
	for news := range t.readers {
		select {
		case news <- struct{}{}:
		default:
		}
	}
}

// Take returns at most limit entries from the sequence next on, and the originals of those that
// are copies, by sequence. Behind is the sequence up to which the caller must read the stream
// first, 0 if it need not.
func (t *Tail) Take(next uint64, limit int) (entries []journal.Entry, copies map[uint64]uint64, behind uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case next > t.last:
		return nil, nil, 0
	case next < t.first:
		return nil, nil, t.first - 1
	}
	from := next - t.first
	slots := t.slots[from:min(from+uint64(limit), uint64(len(t.slots)))]
	entries = make([]journal.Entry, len(slots))
	for i := range slots {
		seq := next + uint64(i)
		entries[i] = journal.Entry{Seq: seq, Event: slots[i].event}
		if slots[i].copyOf != 0 {
			if copies == nil {
				copies = map[uint64]uint64{}
			}
			copies[seq] = slots[i].copyOf
		}
	}
	return entries, copies, 0
}

// Holds reports whether Take can continue with the sequence next.
func (t *Tail) Holds(next uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return next >= t.first
}

// At returns the event with a sequence, false if it is not held.
func (t *Tail) At(seq uint64) (event.Event, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq < t.first || seq-t.first >= uint64(len(t.slots)) {
		return event.Event{}, false
	}
	return t.slots[seq-t.first].event, true
}

// End is the last sequence of the log, as far as it is known.
func (t *Tail) End() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// Appended returns when an event was appended, or the oldest held one, if that is later. It
// returns false if there is no such event.
func (t *Tail) Appended(seq uint64) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.slots) == 0 || seq > t.last {
		return time.Time{}, false
	}
	return t.slots[max(seq, t.first)-t.first].at, true
}

// From returns the first of the events from one up to another that was appended at or after
// since; first if the tail does not hold all of those.
func (t *Tail) From(since time.Time, first, last uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := last; at > first; at-- {
		if len(t.slots) == 0 || at-1 < t.first || at-1 > t.last {
			break
		}
		if t.slots[at-1-t.first].at.Before(since) {
			return at
		}
	}
	return first
}

// Listen has a signal put into news when the log grows, until [Tail.Mute]. News has a capacity
// of 1.
func (t *Tail) Listen(news chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[news] = struct{}{}
}

// Mute ends Listen.
func (t *Tail) Mute(news chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.readers, news)
}

// Behind returns the held events behind a sequence.
func (t *Tail) Behind(passed uint64) (events []event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		if t.first+uint64(i) > passed {
			events = append(events, t.slots[i].event)
		}
	}
	return events
}
