package deliver

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/sink"
)

// Setup is the part of a sink that can change while it runs.
type Setup struct {
	// Type is the sink type, for [Status].
	Type string
	// Lanes is how many writes may be under way at a time, at least 1: see
	// [sink.Driver].
	Lanes int
	// Open opens the sink: its [sink.Config.Open].
	Open func(context.Context) (sink.Sink, error)
	// Route decides what the sink gets.
	Route *Route
}

// replacePatience is how long a write under way has to end when the sink is
// replaced, stopped or set back. What is cut off then may come twice.
const replacePatience = 2 * time.Second

// errReplaced tells a loop to end for another setup, or for good.
var errReplaced = errors.New("the sink is replaced")

// change is what Replace and Stop ask for.
type change struct {
	setup *Setup        // nil: end
	made  chan struct{} // closed when the sink works by it
}

// Replace has the sink continue with another setup, behind the last event that the
// old one is done with. It returns when the old one is closed, which takes some
// seconds if it hangs, or when ctx ends; the change is made in any case. The
// cursor and the metrics stay.
func (r *Runner) Replace(ctx context.Context, s Setup) error { return r.change(ctx, &s) }

// Stop ends the sink without waiting for what the journal still holds for it. It
// returns when Run has ended, or when ctx ends.
func (r *Runner) Stop(ctx context.Context) error { return r.change(ctx, nil) }

func (r *Runner) change(ctx context.Context, s *Setup) error {
	c := change{setup: s, made: make(chan struct{})}
	r.requests.replace(c)
	made := c.made
	if s == nil {
		made = r.done
	}
	select {
	case <-made:
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// changeable returns a context for one setup's time: it ends with ctx, and some
// time after something was asked for that does not wait, if that is not seen to by then.
func (r *Runner) changeable(ctx context.Context) (limited context.Context, end context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for over := false; !over; {
			over = r.breakOffAfterPatience(limited, cancel)
		}
	}()
	return limited, func() { cancel(); <-ended }
}

// breakOffAfterPatience waits for something that does not wait, and breaks off what is under way
// if that is not seen to in time. It reports whether ctx has ended.
func (r *Runner) breakOffAfterPatience(ctx context.Context, cancel context.CancelFunc) bool {
	pressed := r.requests.pressure()
	select {
	case <-pressed:
	case <-ctx.Done():
		return true
	}
	timer := time.NewTimer(replacePatience)
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.requests.breakOff(pressed, cancel)
	case <-ctx.Done():
		return true
	}
}

// adopt makes the change that was asked for and reports whether the sink goes on.
func (r *Runner) adopt(ctx context.Context) (goesOn bool, err error) {
	c := r.requests.change()
	if c.setup == nil {
		return false, nil
	}
	if err := r.startOver(ctx); err != nil {
		return false, err
	}
	r.setup = *c.setup
	r.health.begin(r.setup.Type)
	close(c.made)
	return true, nil
}

// startOver has what was read and not delivered come again.
func (r *Runner) startOver(ctx context.Context) error {
	if err := r.cursor.Reset(ctx); err != nil {
		return err
	}
	r.requests.again()
	return nil
}
