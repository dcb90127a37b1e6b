package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
)

// Memory is a [Journal] in the memory of the process, with a limit in bytes
// ([event.Event.Size]). A restart loses it.
//
// The journal holds an event until the slowest cursor has committed it, and frees it then.
// Without a cursor it frees nothing: it fills up and then blocks. The program opens the
// cursors before the watches start, so that no watch waits for a missing reader.
//
// The Data of events is in memory that the journal reuses. It keeps 8 MiB, or the capacity if
// that is less, once that much has been appended. It takes more while it holds more: at most
// a third more if events do not fill the blocks, and Data above 64 KiB beside that.
//
// Blocked appends proceed in their order, and the events of one Append are contiguous. If
// one event exceeds the capacity, the journal takes it when it is empty, so that no event
// blocks without end.
type Memory struct {
	Stateless

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
	// wake has capacity for one signal: the call is the first one now, or space may be free.
	wake chan struct{}
}

// NewMemory returns an empty journal that holds events of at most capacityBytes.
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

// sleep waits for a signal to self without the lock. The caller holds the lock before and
// after it.
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

// leave removes self from the queue and wakes the next one.
func (m *Memory) leave(self *appender) {
	i := slices.Index(m.waiting, self)
	m.waiting = slices.Delete(m.waiting, i, i+1)
	if i == 0 {
		m.wakeFirst()
	}
}

// wakeFirst wakes the first blocked append, which checks for free space. The others stay
// asleep until they are first.
func (m *Memory) wakeFirst() {
	if len(m.waiting) > 0 {
		signal(m.waiting[0].wake)
	}
}

// put moves the leading events that fit into the ring, signals the readers, and returns the
// rest.
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

// Open implements [Journal]. A new journal knows no names.
func (m *Memory) Open(name string, start Start) (Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed() {
		return nil, ErrClosed
	}
	if _, ok := m.cursors[name]; ok {
		return nil, fmt.Errorf("open cursor %q: it is already open", name)
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
	m.trim() // an Append may wait, and this cursor may have nothing to commit
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

// Close implements [Journal]. It frees the events; entries of earlier Reads stay valid.
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

// trim frees the events that every cursor has committed. Without a cursor it frees none.
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
