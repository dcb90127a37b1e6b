package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
	"github.com/informd/informd/pkg/event"
)

// retrace recovers a short range by lists of the whole resource at each of
// its revisions, metadata only. Nothing can hide between them, not even what was
// born and died inside the range, so that no gap remains. It reports whether the
// making up is over; if not, the lost range begins where it came to.
func (t *Reconciler) retrace(ctx context.Context, to uint64) (bool, error) {
	l := t.Lost
	if !l.Walks() || l.Torn || l.Blind || to < l.From || to-l.From > t.Limits.Revisions ||
		(t.Index.Len()+1)*int(to-l.From) > t.Limits.Objects {
		return false, nil
	}
	// What the lists do not need is left to other targets.
	pages := listwatch.PagesFor(t.Index.Len())
	unused := int(to-l.From) * pages
	if !t.Clients.Ranges.AllowN(time.Now(), unused) {
		t.Logger.Debug("range replay skipped; request budget used up", "from", l.From, "to", to)
		return false, nil // the other ways to make up remain
	}
	// A negative number gives back requests that were not made: reserveN subtracts it.
	defer func() { t.Clients.Ranges.AllowN(time.Now(), -unused) }()
	began := time.Now()
	for l.From < to {
		if time.Since(began) > t.Limits.Time {
			return false, nil
		}
		unused -= pages
		complete, err := t.retraceOne(ctx, l.From+1)
		if listwatch.Expired(err) || listwatch.Unsupported(err) {
			// The other ways to make up remain. A walk would meet an error that lasts, too.
			l.Lenient = l.Lenient || errors.Is(err, listwatch.ErrLasting)
			return false, nil
		}
		if err != nil || !complete {
			return false, err
		}
		l.From++
		t.SetCursor(l.From)
	}
	t.ForgetEnds(to) // a list at that revision holds nothing that ended there
	return true, t.found(ctx, to)
}

// retraceOne brings the index from one revision to the next, at. It reports
// whether all that happened there came out.
func (t *Reconciler) retraceOne(ctx context.Context, at uint64) (complete bool, err error) {
	s := t.NewPass(sweep.Pass{At: at, Newcomer: event.Added, Replay: true, InRow: true})
	differing, _, err := t.Differences(ctx, s)
	if err != nil {
		return false, err
	}
	for _, e := range t.Missing(s) {
		if e.RV >= at {
			continue // the log has it from before the target resumed
		}
		if err := t.EndAt(ctx, e, at); err != nil {
			return false, err
		}
	}
	err = t.Fetch(ctx, s, differing)
	return !s.Blind, err
}
