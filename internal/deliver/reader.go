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
	route  *Route
	idle   context.Context //nolint:containedctx // ends the wait for news when draining begins; Run owns it
	last   uint64          // the last sequence read

	// what is the re-snapshot under way, and objects how many of each target were not left out, nil if none is.
	what    journal.Resnapshot
	objects map[string]int
	ended   bool // its last event was read
}

// next returns the next entries, at least one, and waits for them: what an
// operator has inserted, then what the journal has. It returns none and no error
// when draining has come to its end, and errReplaced if there is a change to make.
func (r *reader) next(ctx context.Context) ([]journal.Entry, error) {
	t := trouble{runner: r.runner}
	for {
		if entries, err := r.first(ctx); entries != nil || err != nil {
			return entries, err
		}
		wait := r.idle
		if r.runner.isDraining() {
			// A cursor may have come to the end before this process.
			if r.last >= r.runner.until || r.runner.cursor.Lag().Events == 0 {
				return nil, nil
			}
			wait = ctx // what is wanted is there: read on without the idle context
		}
		asked, end := r.runner.requests.interruptible(wait)
		entries, err := r.runner.cursor.Read(asked, maxBatchEvents)
		interrupted := asked.Err() != nil && wait.Err() == nil
		end()
		switch {
		case err == nil:
			t.over()
			r.last = max(r.last, entries[len(entries)-1].Seq)
			return entries, nil
		case interrupted:
			continue
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

// first returns what goes before the journal's entries: nothing, and no error, if nothing does.
func (r *reader) first(ctx context.Context) ([]journal.Entry, error) {
	q := r.runner.requests
	switch {
	case ctx.Err() != nil: // a write may have succeeded all the same
		return nil, ctx.Err()
	case q.changed():
		return nil, errReplaced
	}
	if e, ok := q.inserted(); ok {
		return []journal.Entry{{Event: e, Detached: true}}, nil
	}
	return nil, nil
}

// admits applies the route and counts what it leaves out.
func (r *reader) admits(entry *journal.Entry) bool {
	e := &entry.Event
	var failed error // that of the first condition without an answer, which is that of a match
	of := 0
	note := func(match int, _ string, err error) {
		if err != nil && failed == nil {
			failed, of = err, match
		}
	}
	admitted := r.route.decide(e, entry.Detached, note)
	if !admitted {
		if state, ok := r.stateOf(entry); ok && r.route.decide(&state, true, note) {
			*e, admitted = state, true
		}
	}
	if failed != nil { // once for the event, whatever its number of matches
		r.runner.health.unanswered(of, failed, admitted, e.ID)
		r.runner.metrics.whenErrors.Inc()
	}
	r.repeated(e, admitted)
	if e.Op == event.Gap && e.Gap != nil {
		r.runner.metrics.trimmed.Add(float64(e.Gap.Trimmed))
	}
	if admitted {
		return true
	}
	r.runner.requests.handled([]event.Event{*e}, filteredOut) // its caller must not wait
	r.runner.health.filtered(1)
	r.runner.metrics.filtered.Inc()
	return false
}

// commit says that all up to seq is done. A failure is not the sink's: the next
// commit makes up for it, and at worst something is delivered twice.
func (r *reader) commit(seq uint64) {
	err := r.runner.cursor.Commit(seq)
	if err != nil && !errors.Is(err, journal.ErrClosed) {
		r.runner.options.Logger.Warn("cursor not saved; retrying", "seq", seq, "err", err)
	}
}
