package deliver

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// reader is a runner's side towards the journal. Commit may be called
// concurrently; the rest belongs to one goroutine.
type reader struct {
	runner *Runner
	idle   context.Context //nolint:containedctx // ends the wait for news when draining begins; Run owns it
	last   uint64          // the last sequence read
}

// next returns the next entries, at least one, and waits for them. It returns
// none and no error when draining has come to its end.
func (r *reader) next(ctx context.Context) ([]journal.Entry, error) {
	t := trouble{runner: r.runner}
	for {
		wait := r.idle
		if r.runner.isDraining() {
			if r.last >= r.runner.until {
				return nil, nil
			}
			wait = ctx // what is wanted is there: read on without the idle context
		}
		entries, err := r.runner.cursor.Read(wait, maxBatchEvents)
		switch {
		case err == nil:
			t.over()
			r.last = entries[len(entries)-1].Seq
			return entries, nil
		case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
			return nil, err
		case r.idle.Err() != nil && wait == r.idle:
			continue // draining has begun
		}
		t.pause(ctx, fmt.Errorf("read the journal: %w", err))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// admits applies the route and counts what it leaves out.
func (r *reader) admits(e *event.Event) bool {
	if r.runner.options.Route.Admits(e) {
		return true
	}
	r.runner.health.filtered(1)
	r.runner.metrics.filtered.Inc()
	return false
}

// commit says that all up to seq is done. A failure is not the sink's: the next
// commit makes up for it, and at worst something is delivered twice.
func (r *reader) commit(ctx context.Context, seq uint64) {
	// What was delivered is committed even if delivery was just cancelled.
	err := r.runner.cursor.Commit(context.WithoutCancel(ctx), seq)
	if err != nil && !errors.Is(err, journal.ErrClosed) {
		r.runner.options.Logger.Warn("progress could not be committed", "seq", seq, "err", err)
	}
}
