package jetstream

import (
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// tail holds the newest events of the log, so that cursors near its end share them
// and do not ask the server. It has no holes: when an acknowledgement shows that
// something unknown is in between, it begins anew behind that, and who has not
// come so far reads the stream. Its methods may be called concurrently.
type tail struct {
	limit int // bytes, of [event.Event.Size]

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

func newTail(limit int, last uint64) *tail {
	return &tail{limit: limit, first: last + 1, last: last, readers: map[chan<- struct{}]struct{}{}}
}

// push adds an event that was acknowledged with seq. Acknowledgements come in the
// order of the log: false says that this one does not, so that the log is not the
// one it was.
func (t *tail) push(seq uint64, e event.Event, copyOf uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq <= t.acked {
		return false
	}
	t.acked = seq
	if seq <= t.last {
		return true // reach was told of it before
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

// reach says that the log goes at least up to seq, whoever wrote it.
func (t *tail) reach(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq > t.last {
		t.restart(seq + 1)
		t.last = seq
		t.wake()
	}
}

// restart empties the tail; it goes on with the sequence first.
func (t *tail) restart(first uint64) {
	t.slots, t.bytes, t.first = nil, 0, first
}

func (t *tail) wake() {
	for news := range t.readers {
		signal(news)
	}
}

// take returns at most limit entries from next on, and of which sequence those of
// them are copies that are some. Behind is the sequence up to which the caller has
// to read the stream first, 0 if it has not.
func (t *tail) take(next uint64, limit int) (entries []journal.Entry, copies map[uint64]uint64, behind uint64) {
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

// holds reports whether take can go on with the sequence next.
func (t *tail) holds(next uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return next >= t.first
}

// at returns the event with a sequence, false if it is not held.
func (t *tail) at(seq uint64) (event.Event, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq < t.first || seq-t.first >= uint64(len(t.slots)) {
		return event.Event{}, false
	}
	return t.slots[seq-t.first].event, true
}

// end is the last sequence of the log, as far as it is known.
func (t *tail) end() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// appended returns when an event was appended, or when the oldest one that is held
// was, if that is later; false if nothing is held.
func (t *tail) appended(seq uint64) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.slots) == 0 || seq > t.last {
		return time.Time{}, false
	}
	return t.slots[max(seq, t.first)-t.first].at, true
}

// listen has news signalled when the log grows; mute ends that.
func (t *tail) listen(news chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readers[news] = struct{}{}
}

func (t *tail) mute(news chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.readers, news)
}

// signal leaves a signal in a channel of capacity 1, unless one is there.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
