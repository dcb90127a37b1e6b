package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
)

var (
	// errSettle tells a loop to let what is under way come to its end, and to call
	// settle before it reads on.
	errSettle = errors.New("deliveries in progress must end first")
	// errEnded is the answer to requests when the sink has ended.
	errEnded = errors.New("the sink has ended")
	// ErrFilteredOut is the error of an Insert of an event that the sink does not get.
	ErrFilteredOut = errors.New("match or condition of the sink filters the event out")
)

// requests are what an operator asks of a running sink: to deliver single events,
// to do something with the cursor, and to go on with another setup or to end. The loop
// that reads the journal does it, between two reads, so that none gets in the way of
// what is under way.
type requests struct {
	mu    sync.Mutex
	ended bool
	// reading is the context of reads, within that which it was made of, and wake ends
	// it, and so the read under way; nil before the first.
	reading, within context.Context //nolint:containedctx // one for many reads
	wake            context.CancelFunc
	events          []event.Event // that are not delivered, in order
	taken           int           // how many of them are on their way
	// waiting are the callers of insert, by the id of their event.
	waiting map[string]chan outcome
	// tasks are for while nothing is under way; urgent is how many of them do not wait
	// for a destination that is down.
	tasks  []task
	urgent int
	// wanted are changes that are to be made, of which the last one counts.
	wanted []change
	// pressed is closed while there are changes or urgent tasks, and another one after
	// they were seen to.
	pressed chan struct{}
}

// outcome is the result of an inserted event.
type outcome int

const (
	accepted outcome = iota
	refused
	filteredOut
)

// task does something with the cursor. It is called by the loop, with the loop's
// context.
type task func(ctx context.Context, in *reader)

type rewindAnswer struct {
	events uint64
	err    error
}

// Insert has the sink deliver an event between what comes from the journal, and
// returns when the sink is done with it: the destination accepted it, or refused it so
// that it is a dead letter. If the route filters the event out, the error is [ErrFilteredOut].
// No other inserted event may have the same id; an event of the journal may. If ctx ends first, the
// event is delivered only if it is on its way already.
func (r *Runner) Insert(ctx context.Context, e event.Event) (taken bool, err error) {
	done, err := r.requests.insert(e)
	if err != nil {
		return false, fmt.Errorf("sink %s: %w", r.options.Name, err)
	}
	select {
	case o := <-done:
		if o == filteredOut {
			return false, fmt.Errorf("sink %s: %w", r.options.Name, ErrFilteredOut)
		}
		return o == accepted, nil
	case <-r.done:
		return false, fmt.Errorf("sink %s: %w", r.options.Name, errEnded)
	case <-ctx.Done():
		r.requests.withdraw(e.ID)
		return false, ctx.Err()
	}
}

// Rewind has the sink deliver again what was appended to the journal at or after
// since, under new ids, and returns how many events that are at most. A write in
// progress has two seconds; then it is canceled and repeated, and the sink is opened
// again. So Rewind does not wait for a destination that is down. A rewind that the journal
// refuses cancels nothing.
func (r *Runner) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	// A canceled write repeats events, and starts the first snapshot of the sink from its beginning.
	if err := r.cursor.Rewindable(); err != nil {
		return 0, fmt.Errorf("sink %s: %w", r.options.Name, err)
	}
	answer := make(chan rewindAnswer, 1)
	err := r.requests.ask(func(ctx context.Context, in *reader) {
		events, err := in.rewind(ctx, since)
		answer <- rewindAnswer{events, err}
	}, true)
	if err != nil {
		return 0, fmt.Errorf("sink %s: %w", r.options.Name, err)
	}
	select {
	case a := <-answer:
		return a.events, a.err
	case <-r.done:
		return 0, fmt.Errorf("sink %s: %w", r.options.Name, errEnded)
	case <-ctx.Done():
		return 0, fmt.Errorf("sink %s has not rewound yet, and rewinds as soon as possible: %w", r.options.Name, ctx.Err())
	}
}

// DeadLetters returns the dead letters of the sink.
func (r *Runner) DeadLetters() *DeadLetters { return r.options.DeadLetters }

// Name returns the sink's name.
func (r *Runner) Name() string { return r.options.Name }

func (q *requests) insert(e event.Event) (done <-chan outcome, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return nil, errEnded
	}
	if _, ok := q.waiting[e.ID]; ok {
		return nil, fmt.Errorf("event %s is being delivered already", e.ID)
	}
	c := make(chan outcome, 1)
	q.waiting[e.ID] = c
	q.events = append(q.events, e)
	q.interruptNow()
	return c, nil
}

// withdraw removes an event that is not on its way.
func (q *requests) withdraw(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.events, func(e event.Event) bool { return e.ID == id })
	if at >= q.taken {
		q.events = slices.Delete(q.events, at, at+1)
		delete(q.waiting, id)
	}
}

// ask adds a task.
func (q *requests) ask(t task, urgent bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return errEnded
	}
	if urgent {
		q.press()
		q.urgent++
	}
	q.tasks = append(q.tasks, t)
	q.interruptNow()
	return nil
}

// press closes pressed. The caller holds the lock, and then adds something that does not wait.
func (q *requests) press() {
	if !q.pressing() {
		close(q.pressed)
	}
}

// pressing reports whether there is something that does not wait. The caller holds the
// lock.
func (q *requests) pressing() bool { return q.urgent > 0 || len(q.wanted) > 0 }

// interruptNow ends the read under way. The caller holds the lock.
func (q *requests) interruptNow() {
	if q.wake != nil {
		q.wake()
	}
}

// interruptible returns ctx, which also ends when a request comes: for reads, until it
// has ended. There is one at a time, so that not every read makes one.
func (q *requests) interruptible(ctx context.Context) context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reading == nil || q.within != ctx || q.reading.Err() != nil {
		q.interruptNow()
		q.within = ctx
		q.reading, q.wake = context.WithCancel(ctx)
	}
	if len(q.events)-q.taken+len(q.tasks)+len(q.wanted) > 0 {
		q.wake()
	}
	return q.reading
}

// inserted takes the next event to deliver.
func (q *requests) inserted() (event.Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == q.taken {
		return event.Event{}, false
	}
	q.taken++
	return q.events[q.taken-1], true
}

// again has what was taken and is not delivered taken once more.
func (q *requests) again() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
}

// handled sends the callers of insert the outcome of their events. An event of the journal
// may have the id of an inserted one that is not on its way yet: that one
// still comes, and its caller waits for it.
func (q *requests) handled(events []event.Event, o outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return
	}
	for i := range events {
		at := slices.IndexFunc(q.events[:q.taken], func(e event.Event) bool { return e.ID == events[i].ID })
		if at >= 0 {
			q.waiting[events[i].ID] <- o
			delete(q.waiting, events[i].ID)
			q.events = slices.Delete(q.events, at, at+1)
			q.taken--
		}
	}
}

// replace asks for a change.
func (q *requests) replace(c change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.press()
	q.wanted = append(q.wanted, c)
	q.interruptNow()
}

// pressure returns a channel that is closed when something comes that does not wait.
func (q *requests) pressure() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pressed
}

// breakOff cancels what is under way if what has closed the channel is not seen to yet.
// It reports whether it did.
func (q *requests) breakOff(pressed <-chan struct{}, cancel context.CancelFunc) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pressed != pressed {
		return false
	}
	cancel()
	return true
}

func (q *requests) changed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.wanted) > 0
}

// change takes what was asked for: the last of it, as the others are out of date.
func (q *requests) change() change {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.wanted) - 1
	c := q.wanted[last]
	for _, earlier := range q.wanted[:last] {
		close(earlier.made)
	}
	q.wanted = nil
	if !q.pressing() {
		q.pressed = make(chan struct{})
	}
	return c
}

func (q *requests) hasTasks() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.tasks) > 0
}

// takeTasks returns the tasks, in order; they are the caller's to do. If ctx has ended
// it leaves them to whoever comes next.
func (q *requests) takeTasks(ctx context.Context) []task {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	tasks, urgent := q.tasks, q.urgent
	q.tasks, q.urgent = nil, 0
	if urgent > 0 && !q.pressing() {
		q.pressed = make(chan struct{})
	}
	return tasks
}

// close refuses what comes from now on.
func (q *requests) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.interruptNow()
}
