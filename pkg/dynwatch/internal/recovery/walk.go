// Package recovery has objects of a list that may prove a rollback, and the history walk. The walk
// reads from etcd what the watch cache of an API server no longer has: the older revisions of names that
// differ between a list and what was announced. Its callers are the targets of package dynwatch, which
// decide which events follow.
//
// A list of one name at an exact revision is always served by etcd. At the revision before a
// known one it returns the one before, and nothing before the creation.
package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Query asks for the history of one name. All of it up to floor is known.
type Query struct {
	Namespace, Name string
	Floor           uint64
	// UID and RV are what the list holds, RV 0 if it holds nothing; Top is the
	// list's revision.
	UID string
	RV  uint64
	Top uint64
	// KnownUID and KnownRV are what the index holds, empty if nothing.
	KnownUID string
	KnownRV  uint64
}

// Result is one state of an object, or its end.
type Result struct {
	Namespace, Name, UID string
	// RV is the revision of the state or of the end.
	RV  uint64
	End bool
	// Object is the state, or the last one before the end; after the end of one
	// that still exists and no longer matches, the state then. It may be nil.
	Object *frame.Object
	Bad    *frame.Malformed
	Left   bool
	// Listless: the list, of this revision, lacks an object that etcd has.
	Listless bool
	// Torn: something is missing before it.
	Torn bool
}

// errSpent: the budget of the walk is used up.
var errSpent = errors.New("the request budget of the history walk is used up")

// Walk reads the history of names. The caller sets the fields up to Lenient.
type Walk struct {
	Source  *listwatch.Source
	Queries []Query
	// Requests is how many may be made, Width how many at the same time. Bodies is how many
	// bytes of older states of one name are held; others are not read.
	Requests, Width, Bodies int
	// Lenient: no error is worth another attempt of the whole.
	Lenient bool

	results chan Result
	next    atomic.Int64

	mu sync.Mutex
	// Asked and Answers are how many requests were made and answered, Torn says that a
	// history has a gap, and Err ended the walk. They are valid once results is closed.
	Asked, Answers int
	Torn           bool
	Err            error
	// closed is until when the API server wants to be left alone.
	closed time.Time
}

// Start starts the walkers, which end with ctx, or one of which ends all by stop. They make no
// request when the time that is left is over. The channel is closed when all have ended.
func (w *Walk) Start(ctx context.Context, stop func(), left time.Duration) <-chan Result {
	w.results = make(chan Result)
	asking, end := context.WithTimeout(ctx, left)
	var walkers sync.WaitGroup
	for range min(w.Width, len(w.Queries)) {
		walkers.Go(func() {
			if err := w.run(ctx, asking); err != nil {
				w.fail(err)
				stop()
			}
		})
	}
	go func() {
		walkers.Wait()
		end()
		close(w.results)
	}()
	return w.results
}

func (w *Walk) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Err == nil {
		w.Err = err
	}
}

// run takes one name after the other. It asks under one context and sends under another,
// which outlasts the time for asking.
func (w *Walk) run(ctx, asking context.Context) error {
	for {
		i := int(w.next.Add(1)) - 1
		if i >= len(w.Queries) {
			return nil
		}
		h := &history{walk: w, query: &w.Queries[i]}
		if err := cmp.Or(h.trace(asking), ctx.Err()); err != nil {
			return err
		}
		if err := h.send(ctx); err != nil {
			return err
		}
		if h.torn {
			w.mu.Lock()
			w.Torn = true
			w.mu.Unlock()
		}
	}
}

// cut reports whether an error ends one history, not the walk: what is beyond it
// stays unknown.
func (w *Walk) cut(asking context.Context, err error) bool {
	if listwatch.Unsupported(err) {
		w.mu.Lock()
		w.Requests = 0
		w.mu.Unlock()
		return true
	}
	return listwatch.Expired(err) || errors.Is(err, errSpent) || asking.Err() != nil || w.Lenient
}

// state is what a name held at some revision.
type state struct {
	there bool
	uid   string
	rv    uint64
	// Object or bad is the state.
	object *frame.Object
	bad    *frame.Malformed
}

// at looks a name up as it was at rv, in the selection.
func (w *Walk) at(ctx context.Context, q *Query, rv uint64) (state, error) {
	for {
		if err := w.pass(ctx); err != nil {
			return state{}, err
		}
		o, ok, err := w.Source.MatchAt(ctx, q.Namespace, q.Name, rv)
		if w.put(err) {
			continue
		}
		if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
			if bad.UID == "" || bad.ResourceVersion == 0 {
				return state{}, fmt.Errorf("%w: %w", errSpent, err) // no way to go on from it
			}
			return state{there: true, uid: bad.UID, rv: bad.ResourceVersion, bad: bad}, nil
		}
		if err != nil || !ok {
			return state{}, err
		}
		return state{there: true, uid: o.UID, rv: o.ResourceVersion, object: &o}, nil
	}
}

// pass waits until the API server may be asked, and takes one request of the
// budget.
func (w *Walk) pass(ctx context.Context) error {
	for {
		w.mu.Lock()
		wait := time.Until(w.closed)
		if wait <= 0 || ctx.Err() != nil {
			defer w.mu.Unlock()
			if w.Requests <= 0 || ctx.Err() != nil || !w.Source.Clients.Walks.Allow() {
				return errSpent
			}
			w.Requests--
			w.Asked++
			return nil
		}
		w.mu.Unlock()
		_ = kube.Sleep(ctx, wait) // the loop ends with ctx
	}
}

// put notes how a request ended, and reports whether it is to be made again.
func (w *Walk) put(err error) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.Answers++
	}
	wait, ok := kube.Throttled(err)
	if ok {
		w.closed = time.Now().Add(wait)
	}
	return ok
}
