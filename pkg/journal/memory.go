package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
)

// Memory is a Journal in the memory of the process, bounded by bytes
// ([event.Event.Size]). It is as durable as the process.
//
// An event is held until the slowest cursor has committed it, and freed at
// once then: what it carries lies in memory that the journal uses again. That is 8 MiB,
// or the capacity if that is less, once so much has gone through, and more while more is
// held: a third more than that at most where events do not fill it to its ends, and what
// events of more than 64 KiB carry beside it. While there is no cursor at all nothing is dropped either: the
// journal fills up and then blocks. Whoever wires it opens the cursors before
// the watches start, so that no watch waits for a reader that never comes.
//
// Blocked appends proceed in the order in which they came, and the events of
// one Append are never mixed with another's. An event that alone exceeds the
// capacity is taken when the journal is empty, so none can block for ever.
type Memory struct {
	capacity uint64
	start    time.Time
	closed   chan struct{}

	mu      sync.Mutex
	ring    ring
	arena   arena
	cursors map[string]*memoryCursor
	waiting []*appender // blocked Append calls, first come first
}

// appender is one blocked call of Append.
type appender struct {
	// wake has room for one signal: "you are the first now, or there may be room".
	wake chan struct{}
}

// NewMemory makes an empty journal that holds events of at most capacityBytes.
func NewMemory(capacityBytes uint64) *Memory {
	return &Memory{
		capacity: capacityBytes,
		start:    time.Now(),
		closed:   make(chan struct{}),
		ring:     newRing(capacityBytes),
		arena:    newArena(capacityBytes, blockSize),
		cursors:  map[string]*memoryCursor{},
	}
}

// Append implements [Journal].
func (m *Memory) Append(ctx context.Context, events []event.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed() {
		return ErrClosed
	}
	if len(m.waiting) == 0 {
		events = m.put(events)
	}
	if len(events) == 0 {
		return nil
	}
	self := &appender{wake: make(chan struct{}, 1)}
	m.waiting = append(m.waiting, self)
	defer m.leave(self)
	for {
		if err := m.sleep(ctx, self); err != nil {
			return err
		}
		if events = m.put(events); len(events) == 0 {
			return nil
		}
	}
}

// sleep waits, without the lock, for a signal to self. It is called and returns
// with the lock held.
func (m *Memory) sleep(ctx context.Context, self *appender) error {
	m.mu.Unlock()
	defer m.mu.Lock()
	select {
	case <-self.wake:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.closed:
	}
	if m.isClosed() {
		return ErrClosed
	}
	return nil
}

// leave takes self out of the queue and passes the turn on.
func (m *Memory) leave(self *appender) {
	i := slices.Index(m.waiting, self)
	m.waiting = slices.Delete(m.waiting, i, i+1)
	if i == 0 {
		m.wakeFirst()
	}
}

// wakeFirst lets the first of the blocked appends look for room. The others
// stay asleep until it is their turn.
func (m *Memory) wakeFirst() {
	if len(m.waiting) > 0 {
		signal(m.waiting[0].wake)
	}
}

// put moves the leading events that fit into the ring, tells the readers, and
// returns the rest.
func (m *Memory) put(events []event.Event) []event.Event {
	at, n := m.now(), 0
	for ; n < len(events); n++ {
		size := uint64(events[n].Size())
		if m.ring.len() > 0 && m.ring.bytes+size > m.capacity {
			break
		}
		s := slot{event: events[n], size: size, at: at}
		s.event.Data = m.arena.keep(s.event.Data)
		m.ring.push(s)
	}
	if n > 0 {
		for _, c := range m.cursors {
			signal(c.news)
		}
	}
	return events[n:]
}

// Restore implements [Journal]: a new journal holds nothing.
func (m *Memory) Restore(ctx context.Context, _ string, _ func(event.Event)) ([]byte, error) {
	return nil, ctx.Err()
}

// Mark implements [Journal]. A mark is of use to the next process only, which
// this journal does not reach.
func (m *Memory) Mark(ctx context.Context, _ string, _ []byte) error { return ctx.Err() }

// Last implements [Journal]: what was delivered is not kept.
func (m *Memory) Last(ctx context.Context, _ *event.Event) (event.Event, bool, error) {
	return event.Event{}, false, ctx.Err()
}

// Open implements [Journal]. No name is known to a new journal.
func (m *Memory) Open(name string, start Start) (Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed() {
		return nil, ErrClosed
	}
	if _, ok := m.cursors[name]; ok {
		return nil, fmt.Errorf("open cursor %q: it is open already", name)
	}
	c := &memoryCursor{
		journal:   m,
		name:      name,
		committed: m.ring.first - 1,
		next:      m.ring.first,
		news:      make(chan struct{}, 1),
		closed:    make(chan struct{}),
	}
	if start == FromNow {
		c.committed, c.next = m.ring.last, m.ring.last+1
	}
	m.cursors[name] = c
	return c, nil
}

// Stats implements [Journal].
func (m *Memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{
		Events:   m.ring.len(),
		Bytes:    m.ring.bytes,
		Capacity: m.capacity,
		LastSeq:  m.ring.last,
		Blocked:  len(m.waiting),
	}
}

// Close implements [Journal]. The events are freed, and what was read of them stays as
// it is.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed() {
		return ErrClosed
	}
	close(m.closed)
	for m.ring.len() > 0 {
		m.ring.drop()
	}
	m.arena = arena{}
	return nil
}

// trim drops what every cursor has committed. Without a cursor it drops nothing.
func (m *Memory) trim() {
	if len(m.cursors) == 0 {
		return
	}
	slowest := m.ring.last
	for _, c := range m.cursors {
		slowest = min(slowest, c.committed)
	}
	if slowest < m.ring.first {
		return
	}
	for m.ring.first <= slowest {
		m.arena.release(m.ring.drop())
	}
	m.wakeFirst()
}

// now is the age of the journal, on the monotonic clock.
func (m *Memory) now() time.Duration { return time.Since(m.start) }

func (m *Memory) isClosed() bool {
	select {
	case <-m.closed:
		return true
	default:
		return false
	}
}

// signal leaves a signal in a channel of capacity 1, unless one is there.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
