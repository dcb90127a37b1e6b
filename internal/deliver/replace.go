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

// errReplaced tells a loop to end for a change.
var errReplaced = errors.New("the sink is replaced")

// Replace has the sink continue with another setup, behind the last event that the
// old one is done with. It returns when the old one is closed, which takes some
// seconds if it hangs, or when ctx ends; the change is made in any case. The
// cursor and the metrics stay.
func (r *Runner) Replace(ctx context.Context, s Setup) error {
	err := r.change(ctx, func(context.Context) error {
		r.setup = s
		r.health.begin(s.Type)
		return nil
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// Stop ends the sink without waiting for what the journal still holds for it. It
// returns when Run has ended, or when ctx ends.
func (r *Runner) Stop(ctx context.Context) error {
	r.requests.want(func(context.Context) { r.stopped = true })
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change calls do when nothing is under way and the sink is closed, and returns its error. It does not wait
// longer than ctx or the sink last; do is called all the same, unless the sink has ended.
func (r *Runner) change(ctx context.Context, do func(ctx context.Context) error) error {
	done := make(chan error, 1)
	r.requests.want(func(ctx context.Context) { done <- do(ctx) })
	select {
	case err := <-done:
		return err
	case <-r.done:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changeable returns a context for the time until the next change: it ends with ctx, and some
// time after a change was asked for.
func (r *Runner) changeable(ctx context.Context) (limited context.Context, end context.CancelFunc) {
	limited, cancel := context.WithCancel(ctx)
	pressed, ended := r.requests.pressure(), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-pressed:
		case <-limited.Done():
			return
		}
		select {
		case <-time.After(replacePatience):
			cancel()
		case <-limited.Done():
		}
	}()
	return limited, func() { cancel(); <-ended }
}

// makeChanges makes the changes that were asked for. What was read and not delivered comes again.
func (r *Runner) makeChanges(ctx context.Context) error {
	if err := r.cursor.Reset(ctx); err != nil {
		return err
	}
	r.health.begin(r.setup.Type)
	for _, change := range r.requests.changes() {
		change(ctx)
	}
	return nil
}
