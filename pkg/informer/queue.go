package informer

import (
	"container/list"
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
	// initial is isInInitialList. Unknown says that old may not be the final state. Earlier says that
	// handlers of an earlier process may know the object already.
	initial, unknown, earlier bool
	to                        audience
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
	limit    int
	coalesce bool
	// ready and space have one element if there may be notifications, or free space.
	ready, space chan struct{}

	mu sync.Mutex
	// taken says that the handler is called for a notification, whose after is current.
	taken   bool
	current uint64
	all     []notification           // without coalesce
	order   list.List                // with coalesce: *pending, the oldest first
	byKey   map[string]*list.Element // of order
}

// pending is what a handler does not know of one key: a deletion, and then the state. After is
// that of the first notification.
type pending struct {
	key       string
	gone, now *notification
	after     uint64
}

func newQueue(limit int, coalesce bool) *queue {
	return &queue{
		limit: limit, coalesce: coalesce, byKey: make(map[string]*list.Element),
		ready: make(chan struct{}, 1), space: make(chan struct{}, 1),
	}
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
	if q.coalesce {
		q.merge(n)
		return true
	}
	if len(q.all) >= q.limit {
		return false
	}
	q.all = append(q.all, n)
	return true
}

// merge adds a notification to those of its key. An object that comes and goes before the
// handler hears of it leaves nothing, so that keys are bounded by the objects that exist or
// that the handler knows.
func (q *queue) merge(n notification) {
	place := q.byKey[n.key]
	if place == nil {
		place = q.order.PushBack(&pending{key: n.key, after: n.after})
		q.byKey[n.key] = place
	}
	p := pendingAt(place)
	switch {
	case n.action == deleted && p.now == nil:
		p.gone = &n
	case n.action == deleted && p.now.action == updated:
		p.gone, p.now = &n, nil
	case n.action == deleted && p.now.earlier && p.gone == nil:
		p.gone, p.now = &n, nil
	case n.action == deleted:
		p.now = nil
	case n.action == updated && p.now != nil:
		p.now.now = n.now
	default:
		p.now = &n
	}
	if p.gone == nil && p.now == nil {
		q.drop(place)
	}
}

func pendingAt(place *list.Element) *pending {
	p, _ := place.Value.(*pending)
	return p
}

// drop removes a key of which nothing is left to say.
func (q *queue) drop(place *list.Element) {
	delete(q.byKey, pendingAt(place).key)
	q.order.Remove(place)
}

// take returns the next notification, if there is one.
func (q *queue) take() (n notification, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.taken, q.current = ok, n.after }() // until the next call
	if q.coalesce {
		return q.takeMerged()
	}
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
	switch first := q.order.Front(); {
	case q.taken:
		return min(applied, q.current)
	case first != nil:
		return min(applied, pendingAt(first).after)
	case len(q.all) > 0:
		return min(applied, q.all[0].after)
	default:
		return applied
	}
}

func (q *queue) takeMerged() (n notification, ok bool) {
	first := q.order.Front()
	if first == nil {
		return n, false
	}
	p := pendingAt(first)
	if p.gone != nil {
		n, p.gone = *p.gone, nil
		n.after = p.after
		if p.now != nil {
			return n, true // the key stays first
		}
	} else {
		n = *p.now
	}
	n.after = p.after
	q.drop(first)
	return n, true
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all) == 0 && q.order.Len() == 0
}
