package informer

import (
	"sync"

	"github.com/informd/informd/pkg/informer/internal/objects"
)

// action is what happened to an object.
type action uint8

const (
	added action = iota
	updated
	deleted
	// reached says that the informer is synced: all earlier notifications are of its first list.
	reached
)

// notification is one call to a handler. It holds objects compressed, so that a full queue takes
// little memory.
type notification struct {
	action   action
	key      string
	old, now objects.Blob
	// initial is isInInitialList. Unknown says that old may not be the final state.
	initial, unknown bool
	to               audience
	// after is the sequence of the journal before the event, 0 without a journal.
	after uint64
}

// audience is the handlers that get a notification.
type audience uint8

const (
	allHandlers audience = iota
	// resumedHandlers were added before the start, and continue those of an earlier process.
	resumedHandlers
	// lateHandlers were added after the start, and begin with all objects.
	lateHandlers
)

// queue has the notifications of one handler. One goroutine puts and one takes.
type queue struct {
	limit int
	// ready and space have one element if there may be notifications, or free space.
	ready, space chan struct{}

	mu sync.Mutex
	// taken says that the handler is called for a notification, whose after is current.
	taken   bool
	current uint64
	all     []notification
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put adds a notification. It blocks while the queue is full, and returns early when one of the
// channels is closed.
func (q *queue) put(n notification, ended, removed <-chan struct{}) {
	for {
		if q.offer(n) {
			signal(q.ready)
			return
		}
		select {
		case <-q.space:
		case <-ended:
			return
		case <-removed:
			return
		}
	}
}

func (q *queue) offer(n notification) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) >= q.limit {
		return false
	}
	q.all = append(q.all, n)
	return true
}

// take returns the next notification, if there is one.
func (q *queue) take() (n notification, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.taken, q.current = ok, n.after }() // until the next call
	if len(q.all) == 0 {
		q.all = nil
		return n, false
	}
	n, q.all[0] = q.all[0], notification{}
	q.all = q.all[1:]
	signal(q.space)
	return n, true
}

// handled returns the sequence up to which the handler has handled all notifications, at most
// applied: the one that was taken last counts when the next one is taken.
func (q *queue) handled(applied uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.taken:
		return min(applied, q.current)
	case len(q.all) > 0:
		return min(applied, q.all[0].after)
	default:
		return applied
	}
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all) == 0
}
