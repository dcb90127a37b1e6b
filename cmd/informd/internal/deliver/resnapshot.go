package deliver

import (
	"context"
	"fmt"

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

// Resnapshot has the sink deliver the states of objects anew, between what comes from
// the journal anyway, and returns how many of each target that were when the sink is
// done with all of it. One is made at a time, the others wait. If ctx ends before, what
// has begun goes on, what has not does not begin. A sink that is replaced meanwhile
// begins it again, under the same ids.
func (r *Runner) Resnapshot(ctx context.Context, what journal.Resnapshot) (objects map[string]int, err error) {
	wrap := func(err error) error { return fmt.Errorf("sink %s: %w", r.options.Name, err) }
	select {
	case r.resnapshots <- struct{}{}:
	case <-r.done:
		return nil, wrap(errEnded)
	case <-ctx.Done():
		return nil, wrap(ctx.Err())
	}
	s := &resnapshot{what: what, answer: make(chan resnapshotAnswer, 1)}
	gone := ctx.Done()
	err = r.requests.ask(func(ctx context.Context, in *reader) {
		select {
		case <-gone:
			<-r.resnapshots
		default:
			in.resnapshot(ctx, s)
		}
	})
	if err != nil {
		<-r.resnapshots
		return nil, wrap(err)
	}
	select {
	case a := <-s.answer:
		if a.err != nil {
			return nil, wrap(a.err)
		}
		return a.objects, nil
	case <-r.done:
		return nil, wrap(errEnded)
	case <-ctx.Done():
		return nil, wrap(fmt.Errorf("what has begun goes on, the waiting does not: %w", ctx.Err()))
	}
}

// resnapshot begins one, or begins it again.
func (r *reader) resnapshot(ctx context.Context, s *resnapshot) {
	err := journal.ErrNotKept
	if cursor, ok := r.runner.cursor.(journal.Resnapshotter); ok {
		err = cursor.Resnapshot(context.WithoutCancel(ctx), s.what) // it does not wait
	}
	if err != nil {
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
func (r *Runner) askSoon(t task) { _ = r.requests.ask(t) }

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

// concludeResnapshot tells who waits how it went, and lets the next one begin.
func (r *Runner) concludeResnapshot(s *resnapshot, err error) {
	r.resnapshot = nil
	s.answer <- resnapshotAnswer{s.objects, err}
	<-r.resnapshots
}
