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
	// errEnded is the answer to requests when the sink has ended.
	errEnded = errors.New("the sink has ended")
	// ErrFilteredOut is the error of an Insert of an event that the sink does not get.
	ErrFilteredOut = errors.New("match or condition of the sink filters the event out")
)

// requests are what an operator asks of a running sink: to deliver a single event, and the changes
// of replace.go. The loop that reads the journal does it, between two reads, so that none gets in
// the way of what is under way.
type requests struct {
	// inserting is full while there is an insertion: there is one at a time.
	inserting chan struct{}

	mu sync.Mutex
	// wake ends the read under way.
	wake      context.CancelFunc
	insertion *insertion // nil if there is none
	// wanted are the changes that are to be made, in order; pressed is closed while there are any.
	wanted  []func(ctx context.Context)
	pressed chan struct{}
}

func newRequests() *requests {
	return &requests{inserting: make(chan struct{}, 1), wake: func() {}, pressed: make(chan struct{})}
}

// insertion is an event that is to be delivered between those of the journal.
type insertion struct {
	event event.Event
	taken bool // it is on its way
	done  chan outcome
}

// outcome is the result of an inserted event.
type outcome int

const (
	accepted outcome = iota
	refused
	filteredOut
)

// Insert has the sink deliver an event between what comes from the journal, and
// returns when the sink is done with it: the destination accepted it, or refused it so
// that it is a dead letter. If the route filters the event out, the error is [ErrFilteredOut].
// Calls wait for each other. If ctx ends first, the event is delivered only if it is on its way already.
func (r *Runner) Insert(ctx context.Context, e event.Event) (taken bool, err error) {
	select {
	case r.requests.inserting <- struct{}{}:
	case <-r.done:
		return false, fmt.Errorf("sink %s: %w", r.options.Name, errEnded)
	case <-ctx.Done():
		return false, ctx.Err()
	}
	one := &insertion{event: e, done: make(chan outcome, 1)}
	r.requests.insert(one)
	select {
	case o := <-one.done:
		if o == filteredOut {
			return false, fmt.Errorf("sink %s: %w", r.options.Name, ErrFilteredOut)
		}
		return o == accepted, nil
	case <-r.done:
		return false, fmt.Errorf("sink %s: %w", r.options.Name, errEnded)
	case <-ctx.Done():
		r.requests.withdraw(one)
		return false, ctx.Err()
	}
}

// Rewind has the sink deliver again what was appended to the journal at or after
// since, under new ids, and returns how many events that are at most. A write in
// progress has two seconds; then it is canceled and repeated. The sink is opened
// again. So Rewind does not wait for a destination that is down. A rewind that the journal
// refuses cancels nothing.
func (r *Runner) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	// A canceled write repeats events, and starts the first snapshot of the sink from its beginning.
	if err := r.cursor.Rewindable(); err != nil {
		return 0, fmt.Errorf("sink %s: %w", r.options.Name, err)
	}
	var events uint64
	err := r.change(ctx, func(ctx context.Context) (err error) {
		events, err = r.cursor.Rewind(ctx, since)
		return err
	})
	switch {
	case err == nil:
		return events, nil
	case ctx.Err() != nil:
		return 0, fmt.Errorf("sink %s has not rewound yet, and rewinds as soon as possible: %w", r.options.Name, err)
	default:
		return 0, fmt.Errorf("sink %s: %w", r.options.Name, err)
	}
}

// DeadLetters returns the dead letters of the sink.
func (r *Runner) DeadLetters() *DeadLetters { return r.options.DeadLetters }

// Name returns the sink's name.
func (r *Runner) Name() string { return r.options.Name }

func (q *requests) insert(one *insertion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.insertion = one
	q.wake()
}

// withdraw removes an event that is not on its way.
func (q *requests) withdraw(one *insertion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.insertion == one && !one.taken {
		q.endInsertion()
	}
}

// endInsertion lets the next Insert begin. The caller holds the lock.
func (q *requests) endInsertion() {
	q.insertion = nil
	<-q.inserting
}

// want adds a change.
func (q *requests) want(change func(ctx context.Context)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.wanted) == 0 {
		close(q.pressed)
	}
	q.wanted = append(q.wanted, change)
	q.wake()
}

// interruptible returns ctx for a read, which also ends when a request comes. The caller calls end after the read.
func (q *requests) interruptible(ctx context.Context) (asked context.Context, end context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	asked, q.wake = context.WithCancel(ctx)
	if q.insertion != nil && !q.insertion.taken || len(q.wanted) > 0 {
		q.wake()
	}
	return asked, q.wake
}

// inserted takes the event to deliver.
func (q *requests) inserted() (event.Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.insertion == nil || q.insertion.taken {
		return event.Event{}, false
	}
	q.insertion.taken = true
	return q.insertion.event, true
}

// handled sends the caller of Insert the outcome of its event. An event of the journal
// may have the id of an inserted one that is not on its way yet: that one
// still comes, and its caller waits for it.
func (q *requests) handled(events []event.Event, o outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.insertion
	if one == nil || !one.taken || !slices.ContainsFunc(events, func(e event.Event) bool { return e.ID == one.event.ID }) {
		return
	}
	one.done <- o
	q.endInsertion()
}

// pressure returns a channel that is closed while there are changes to make.
func (q *requests) pressure() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pressed
}

func (q *requests) changed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.wanted) > 0
}

// changes takes the changes that are to be made, and has an inserted event that is not delivered taken once more.
func (q *requests) changes() []func(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.insertion != nil {
		q.insertion.taken = false
	}
	wanted := q.wanted
	if len(wanted) > 0 {
		q.wanted, q.pressed = nil, make(chan struct{})
	}
	return wanted
}
