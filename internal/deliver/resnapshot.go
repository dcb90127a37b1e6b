package deliver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

const (
	// Forever is the patience of a [Runner.Resnapshot] that waits until the destination has the objects.
	Forever time.Duration = math.MaxInt64
	// maxScheduled bounds the re-snapshots of a schedule that are not complete. So requests have a place, too.
	maxScheduled = journal.MaxRequests / 2
)

// ErrPending is the answer to a request that is kept until the sink works.
var ErrPending = errors.New("the re-snapshot is pending")

// resnapshots are the callers that wait for re-snapshots. The cursor has those that are not complete.
type resnapshots struct {
	mu sync.Mutex
	// waiting are the callers, by run: channels with room for one answer.
	waiting map[uint64]chan map[string]int
}

func (s *resnapshots) wait(run uint64) <-chan map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan map[string]int, 1)
	s.waiting[run] = done
	return done
}

func (s *resnapshots) answer(run uint64, objects map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done := s.waiting[run]; done != nil && objects != nil {
		done <- objects
	}
	delete(s.waiting, run)
}

// Pending is a re-snapshot of the sink that is not complete.
type Pending struct {
	Resource string `json:"resource"`
	Run      uint64 `json:"run"`
}

func (r *Runner) pending() (all []Pending) {
	for _, what := range r.cursor.Requests() {
		all = append(all, Pending{Resource: resourceOf(what), Run: what.Run})
	}
	return all
}

func resourceOf(what journal.Resnapshot) string {
	first := what.Begin[0]
	return event.GroupOrCore(first.Group) + "/" + first.Resource
}

// Repeat is [Runner.Resnapshot] for a schedule: it does not wait, and asks for nothing while an earlier one of the
// resource is not complete, or too many are not.
func (r *Runner) Repeat(ctx context.Context, what journal.Resnapshot) {
	resource, pending := resourceOf(what), r.cursor.Requests()
	same := func(one journal.Resnapshot) bool { return resourceOf(one) == resource }
	if len(pending) >= maxScheduled || slices.ContainsFunc(pending, same) {
		r.options.Logger.Warn("scheduled re-snapshot left out; the sink has not had those before", "resource", resource,
			"next", "raise resnapshotEvery, or make the sink faster")
		return
	}
	if err := r.request(ctx, what); err != nil && ctx.Err() == nil && !errors.Is(err, errEnded) {
		r.options.Logger.Warn("scheduled re-snapshot left out", "resource", resource, "err", err)
	}
}

func (r *Runner) request(ctx context.Context, what journal.Resnapshot) error {
	switch err := r.cursor.Request(ctx, what); {
	case errors.Is(err, journal.ErrClosed):
		return errEnded
	case err != nil:
		return fmt.Errorf("keep the request: %w", err)
	}
	return nil
}

// Resnapshot has the sink deliver the states of objects again, between what comes from
// the journal anyway, and returns how many of each target that were when the sink is
// done with all of it. One is made at a time, the others wait. If ctx ends before, or the
// sink, the request stays: a sink that is replaced meanwhile begins it again, and so does
// another process if the journal outlives this one, under the same ids. If the sink stays down
// for as long as patience, the error is [ErrPending].
func (r *Runner) Resnapshot(ctx context.Context, what journal.Resnapshot, patience time.Duration) (objects map[string]int, err error) {
	wrap := func(err error) error { return fmt.Errorf("sink %s: %w", r.options.Name, err) }
	done := r.resnapshots.wait(what.Run)
	defer r.resnapshots.answer(what.Run, nil)
	if err := r.request(ctx, what); err != nil {
		return nil, wrap(err)
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for down := time.Duration(0); ; {
		select {
		case objects := <-done:
			return objects, nil
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
		if down >= patience {
			return nil, wrap(fmt.Errorf("%w: the sink is %s: %s", ErrPending, s.State, s.LastError))
		}
	}
}

// repeated notes an event that may be part of a re-snapshot.
func (r *reader) repeated(e *event.Event, admitted bool) {
	switch {
	case e.Redelivered: // a dead letter of an earlier attempt, whose ids are the same
	case e.Op == event.Begin && e.Replay:
		for _, what := range r.runner.cursor.Requests() {
			if e.ID == what.Begin[0].ID {
				r.what, r.objects = what, make(map[string]int)
			}
		}
	case r.objects == nil:
	case admitted && e.Reannounced() && e.Run == r.what.Run:
		r.objects[e.Target]++
	case e.ID == r.what.End[len(r.what.End)-1].ID:
		r.ended = true
	}
}

// stateOf makes the state of an object of a change that the sink does not get, if the change stands for that: a snapshot
// leaves out an object that has a newer event, and removed history may have had the only other event of it.
func (r *reader) stateOf(entry *journal.Entry) (event.Event, bool) {
	e := entry.Event
	if !entry.Detached || e.Redelivered || e.Op != event.Modified && e.Op != event.Entered {
		return e, false
	}
	e.Op = event.Snapshot
	e.DropChanges()
	if r.objects != nil && e.Group == r.what.Begin[0].Group && e.Resource == r.what.Begin[0].Resource {
		e.PrevResourceVersion, e.Replay = e.ResourceVersion, true
		e.SetRun(r.what.Run)
	}
	return e, true
}

// conclude answers a request if its last event was read. Nothing that was read may be under way. It logs the
// outcome, because the caller may not wait any more.
func (r *reader) conclude() {
	if !r.ended {
		return
	}
	what, objects := r.what, r.objects
	r.objects, r.ended = nil, false
	complete, err := r.runner.cursor.Complete(what.Run)
	if !complete {
		return // it begins again
	}
	logger := r.runner.options.Logger.With("resource", resourceOf(what), "run", what.Run)
	if err != nil {
		logger.Warn("completed re-snapshot not recorded; a restart repeats it", "err", err)
	}
	logger.Info("re-snapshot complete")
	r.runner.resnapshots.answer(what.Run, objects)
}
