package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// firstList is how far the first list has come: a page that breaks off is read
// again, and only a list that cannot be continued is begun anew.
type firstList struct {
	sweep   *sweep
	listing listwatch.Listing
	// opened: the log has the begin event.
	opened bool
	// broken: a list was begun anew after it had announced objects, whose
	// revisions between the two lists nobody has seen.
	broken bool
}

// snapshot is the target's first list: everything in it is announced, between a begin
// and a synced event.
func (t *target) snapshot(ctx context.Context) error {
	t.relogFirst()
	f := &t.list
	if t.first.began == 0 {
		rv, err := t.source.Revision(ctx)
		if err != nil {
			return err
		}
		t.first.began, t.first.run = rv, t.runs.Next()
		if err := t.markNow(ctx); err != nil {
			return err
		}
	}
	if t.first.lost && t.lost == nil {
		if rolledBack, err := t.checkRollback(ctx); rolledBack || err != nil {
			return err
		}
	}
	t.setState(Syncing, "reading the first list") // not before: a forbidden target stays so
	if err := t.openFirst(ctx); err != nil {
		return err
	}
	if f.sweep == nil {
		f.sweep, f.listing = t.newSweep(sweep{newcomer: t.firstOp, rollback: t.lost != nil}), listwatch.Listing{}
		f.broken = f.broken || t.index.Len() > 0
	}
	rv, err := t.listFirst(ctx)
	if errors.Is(err, errRolledBack) {
		f.sweep, f.broken = nil, true
		return err
	}
	if err != nil {
		if f.listing.Next == "" || listwatch.Expired(err) {
			f.sweep = nil
		}
		return err
	}
	if t.relogFirst() {
		return nil
	}
	return t.complete(ctx, rv)
}

// listFirst takes the first list, from where it stands, and ends what it lacks.
func (t *target) listFirst(ctx context.Context) (uint64, error) {
	rv, err := t.sweeper.list(ctx, t.list.sweep, &t.list.listing)
	if err == nil {
		err = t.endMissing(ctx, t.list.sweep, rv)
	}
	if errors.Is(err, errBehind) { // of an object, or of the revision that the list began at
		err = cmp.Or(t.doubt(ctx), errRolledBack)
	}
	return rv, err
}

// openFirst says that the first list begins, unless the log has that from an earlier
// process: objects were announced behind it.
func (t *target) openFirst(ctx context.Context) error {
	f := &t.list
	if f.opened || t.first.run == 0 {
		return nil
	}
	begin := t.Record(event.Begin)
	last, ok, err := t.options.Log.Last(ctx, &begin)
	if err != nil {
		return fmt.Errorf("%w: read the last begin event: %w", emit.ErrLog, err)
	}
	if !ok || last.Run != t.first.run {
		if err := t.EmitBound(ctx, event.Begin, t.first.run, t.first.began, false); err != nil {
			return err
		}
	}
	f.opened = true
	return nil
}

// complete ends the first list.
func (t *target) complete(ctx context.Context, rv uint64) error {
	if t.list.broken && (t.lost != nil || !t.first.lost && t.first.began < rv) {
		gap := event.GapInfo{From: t.first.began, To: rv, Reason: recovery.ReasonBroken, Recovered: event.RecoveredState}
		if t.lost != nil {
			gap.Reason = t.lost.Reason
		}
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
	}
	if t.first.lost {
		gap := event.GapInfo{To: rv, Reason: recovery.ReasonJournal, Recovered: event.RecoveredState}
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.logger.Warn("history lost; declaring a gap", "reason", recovery.ReasonJournal, "to", rv, "recovered", gap.Recovered)
	}
	if err := t.EmitBound(ctx, event.Synced, t.first.run, rv, false); err != nil {
		return err
	}
	t.list, t.first, t.lost = firstList{}, firstRun{}, nil
	t.forgetFormer()
	t.setCursor(rv)
	t.proven = 0
	t.coverage.ForgetLeftOut(0) // nothing is promised of what was before
	t.clean = rv
	t.status.synced.Store(true)
	t.status.progressNow()
	t.resetPause()
	return t.markNow(ctx)
}
