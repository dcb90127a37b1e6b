package deliver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// resnapshot is what the sink is given anew on request. It belongs to the loop.
type resnapshot struct {
	what journal.Resnapshot
	// attempt counts the times that it begins, or has to.
	attempt int
	// objects is how many of each target were not left out.
	objects map[string]int
	answer  chan resnapshotAnswer // capacity 1
}

type resnapshotAnswer struct {
	objects map[string]int
	err     error
}

// ErrPending is the answer to a request that is kept until the sink works.
var ErrPending = errors.New("the re-snapshot is pending")

// Resnapshot has the sink deliver the states of objects again, between what comes from
// the journal anyway, and returns how many of each target that were when the sink is
// done with all of it. One is made at a time, the others wait. If ctx ends before, or the
// sink, the request stays: a sink that is replaced meanwhile begins it again, and so does
// another process if the journal outlives this one, under the same ids. A sink that stays down is not waited for: [ErrPending].
func (r *Runner) Resnapshot(ctx context.Context, what journal.Resnapshot) (objects map[string]int, err error) {
	return r.resnapshotWithin(ctx, what, pendingAfter)
}

// Refill is [Runner.Resnapshot] for a destination that lacks objects. It waits for a sink that is
// down as well: when it returns without an error, the destination has them.
func (r *Runner) Refill(ctx context.Context, what journal.Resnapshot) (objects map[string]int, err error) {
	return r.resnapshotWithin(ctx, what, math.MaxInt64)
}

// maxScheduled bounds the re-snapshots of a schedule that are not complete. So requests have a place, too.
const maxScheduled = maxOrders / 2

// Repeat is [Runner.Resnapshot] for a schedule: it does not wait, and asks for nothing while an earlier one of the
// resource is not complete, or too many are not.
func (r *Runner) Repeat(ctx context.Context, what journal.Resnapshot) {
	resource, pending := resourceOf(what), r.orders.requests()
	same := func(one journal.Resnapshot) bool { return resourceOf(one) == resource }
	if len(pending) >= maxScheduled || slices.ContainsFunc(pending, same) {
		r.options.Logger.Warn("scheduled re-snapshot left out; the sink has not had those before", "resource", resource,
			"next", "raise resnapshotEvery, or make the sink faster")
		return
	}
	if _, err := r.order(ctx, what); err != nil && ctx.Err() == nil && !errors.Is(err, errEnded) {
		r.options.Logger.Warn("scheduled re-snapshot left out", "resource", resource, "err", err)
	}
}

// resnapshotWithin waits for a sink that is down for some time.
func (r *Runner) resnapshotWithin(ctx context.Context, what journal.Resnapshot, limit time.Duration) (objects map[string]int, err error) {
	wrap := func(err error) error { return fmt.Errorf("sink %s: %w", r.options.Name, err) }
	one, err := r.order(ctx, what)
	if err != nil {
		return nil, wrap(err)
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for down := time.Duration(0); ; {
		select {
		case a := <-one.answer:
			if a.err != nil {
				return nil, wrap(a.err)
			}
			return a.objects, nil
		case <-r.done:
			return nil, wrap(fmt.Errorf("%w; informd continues the re-snapshot when it starts again with this journal", errEnded))
		case <-ctx.Done():
			return nil, wrap(fmt.Errorf("the re-snapshot continues, the wait for it has ended: %w", ctx.Err()))
		case <-look.C:
		}
		s := r.health.snapshot()
		if down += time.Second; s.State == Running {
			down = 0
		}
		if down >= limit {
			return nil, wrap(fmt.Errorf("%w: the sink is %s: %s", ErrPending, s.State, s.LastError))
		}
	}
}

// pendingAfter is how long a request waits for a sink that is down.
const pendingAfter = 15 * time.Second

// resnapshot begins one, or begins it again.
func (r *reader) resnapshot(ctx context.Context, s *resnapshot) {
	if err := r.runner.cursor.Resnapshot(context.WithoutCancel(ctx), s.what); err != nil { // it does not wait
		r.runner.concludeResnapshot(s, err)
		return
	}
	r.runner.resnapshot, s.objects = s, make(map[string]int)
}

// resnapshotAgain has what is under way begin anew, as the cursor was moved and has
// dropped it.
func (r *Runner) resnapshotAgain() {
	s := r.resnapshot
	if s == nil {
		return
	}
	s.attempt++
	r.askSoon(func(ctx context.Context, in *reader) {
		if r.resnapshot == s {
			in.resnapshot(ctx, s)
		}
	})
}

// askSoon is ask for the loop itself. If the sink has ended there is nothing to do.
func (r *Runner) askSoon(t task) { _ = r.requests.ask(t, false) }

// repeated notes an event that may be part of what is repeated. When the last one was
// read it has the end noted, once nothing is under way any more.
func (r *reader) repeated(e *event.Event, admitted bool) {
	s := r.runner.resnapshot
	switch {
	case s == nil:
	case admitted && e.Reannounced() && e.Run == s.what.Run:
		s.objects[e.Target]++
	case e.ID == s.what.End[len(s.what.End)-1].ID:
		attempt := s.attempt
		r.runner.askSoon(func(context.Context, *reader) {
			if s.attempt == attempt {
				r.runner.concludeResnapshot(s, nil)
			}
		})
	}
}

// concludeResnapshot answers how it went.
func (r *Runner) concludeResnapshot(s *resnapshot, err error) {
	r.resnapshot = nil
	s.answer <- resnapshotAnswer{s.objects, err}
}
