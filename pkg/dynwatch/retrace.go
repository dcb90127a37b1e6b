package dynwatch

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// retrace makes up for a short range by lists of the whole resource at each of
// its revisions, metadata only. Nothing can hide between them, not even what was
// born and died inside the range, so that no gap remains. It reports whether the
// making up is over; if not, the lost range begins where it came to.
func (t *reconciler) retrace(ctx context.Context, to uint64) (bool, error) {
	l := t.lost
	if !l.Walks() || l.Torn || l.Blind || to < l.From || to-l.From > t.limits.revisions ||
		(t.index.Len()+1)*int(to-l.From) > t.limits.objects {
		return false, nil
	}
	// What the lists do not need is left to other targets.
	pages := listwatch.PagesFor(t.index.Len())
	unused := int(to-l.From) * pages
	if !t.clients.Ranges.Take(unused) {
		t.logger.Debug("range replay skipped; request budget used up", "from", l.From, "to", to)
		return false, nil // the other ways to make up remain
	}
	defer func() { t.clients.Ranges.GiveBack(unused) }()
	began, waited := time.Now(), t.await.waited
	for l.From < to {
		if time.Since(began)-(t.await.waited-waited) > t.limits.time {
			return false, nil
		}
		unused -= pages
		complete, err := t.retraceOne(ctx, l.From+1)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			return false, nil // the other ways to make up remain
		}
		if err != nil || !complete {
			return false, err
		}
		l.From++
		t.setCursor(l.From)
	}
	t.forgetEnds(to) // a list at that revision holds nothing that ended there
	return true, t.found(ctx, to)
}

// retraceOne brings the index from one revision to the next, at. It reports
// whether all that happened there came out.
func (t *reconciler) retraceOne(ctx context.Context, at uint64) (complete bool, err error) {
	s := t.newSweep(sweep{at: at, newcomer: event.Added, replay: true, inRow: true})
	differing, _, err := t.differences(ctx, s)
	if err != nil {
		return false, err
	}
	for _, e := range t.missing(s) {
		if e.RV >= at {
			continue // the log has it from before the target resumed
		}
		if err := t.endAt(ctx, e, at); err != nil {
			return false, err
		}
	}
	err = t.fetch(ctx, s, differing)
	return !s.blind, err
}

// endAt ends what existed at the revision before at and not at it any more, with
// its last state.
func (t *decider) endAt(ctx context.Context, e *index.Entry, at uint64) error {
	if !t.coverage.Filter.Covers(t.index.Namespace(e)) {
		return t.endUncovered(ctx, e, at)
	}
	if t.doubts(e) {
		return t.endDoubtful(ctx, e, at)
	}
	if !t.spec.selects() {
		if spared, err := t.spared(ctx, e, at); spared || err != nil {
			return err
		}
	}
	last, err := t.lastState(ctx, e, at-1)
	if err != nil {
		return err
	}
	if !t.spec.selects() {
		return t.end(ctx, event.Deleted, e, last, at, true)
	}
	now, still, err := t.stillThere(ctx, e, at)
	switch {
	case err != nil:
		return err
	case still:
		return t.end(ctx, event.Left, e, now, at, true)
	default:
		return t.end(ctx, event.Deleted, e, last, at, true)
	}
}

// lastState returns the entry's object as it was at rv, nil if that cannot be
// read or passed on.
func (t *decider) lastState(ctx context.Context, e *index.Entry, rv uint64) (*frame.Object, error) {
	o, ok, err := t.source.ObjectAt(ctx, t.index.Namespace(e), t.index.Name(e), rv)
	if _, bad := errors.AsType[*frame.Malformed](err); bad || listwatch.Expired(err) || listwatch.Unsupported(err) {
		return nil, nil // there is none to show
	}
	if err != nil || !ok || !t.index.IsUID(e, o.UID) {
		return nil, err
	}
	return &o, nil
}
