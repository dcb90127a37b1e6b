package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// firstRun identifies the first list.
type firstRun struct {
	// Began is a revision from before anything was announced, and run that of all that
	// belongs to the list; 0 if an earlier version of informd has begun it. A restart of
	// the process or of the list does not change them: what was announced before stays
	// part of it. Where the log has lost events, each process begins another run.
	Began, Run uint64
	// Lost: the log has lost some or all events of the target, so that not all
	// deletions before the list are known. So the list names every object, also those that
	// the index has: a consumer may hold objects that no longer exist.
	Lost bool
}

// firstList is how far the first list has come: a page that breaks off is read
// again, and only a list that cannot be continued begins again.
type firstList struct {
	sweep   *Pass
	listing listwatch.Listing
	// opened: the log has the begin event.
	opened bool
	// broken: a list began again after it had announced objects, whose
	// revisions between the two lists are unknown.
	broken bool
	// refused counts the answers by which the server refused to continue the list.
	refused int
}

// maxRefused is how often a server may refuse to continue the first list until the list begins
// again. One of several API servers may know the token.
const maxRefused = 3

// ended reports whether the list cannot be continued after an error. Other errors pass.
func (f *firstList) ended(err error) bool {
	if listwatch.Unsupported(err) {
		f.refused++
	}
	return f.listing.Next == "" || listwatch.Expired(err) || errors.Is(err, listwatch.ErrLasting) ||
		f.refused >= maxRefused
}

// snapshot is the target's first list: everything in it is announced, between a begin
// and a synced event.
func (t *Target) snapshot(ctx context.Context) error {
	f := &t.firstList
	if t.firstRun.Began == 0 {
		if err := t.beginFirst(ctx); err != nil {
			return err
		}
	}
	if t.firstRun.Lost && t.lost == nil {
		if rolledBack, err := t.checkRollback(ctx); rolledBack || err != nil {
			return err
		}
	}
	t.setState(status.Syncing, "reading the first list") // not before: a forbidden target stays so
	if err := t.openFirst(ctx); err != nil {
		return err
	}
	if f.sweep == nil {
		f.sweep, f.listing, f.refused = t.NewPass(Pass{Newcomer: t.FirstOp, Rollback: t.lost != nil}), listwatch.Listing{}, 0
		f.broken = f.broken || t.Index.Len() > 0
	}
	rv, err := t.listFirst(ctx)
	if errors.Is(err, errRolledBack) {
		f.sweep, f.broken = nil, true
		return err
	}
	if err != nil {
		if f.ended(err) {
			f.sweep = nil
		}
		return err
	}
	return t.complete(ctx, rv)
}

// beginFirst notes a revision from before the first list.
func (t *Target) beginFirst(ctx context.Context) error {
	t.firstList = firstList{}
	if !t.firstRun.Lost {
		t.passRollbacks()
	}
	rv, err := t.Source.Revision(ctx)
	if err != nil {
		return err
	}
	t.firstRun.Began, t.firstRun.Run = rv, t.Runs.Next()
	return t.markNow(ctx)
}

// listFirst takes the first list, from where it stands, and ends what it lacks.
func (t *Target) listFirst(ctx context.Context) (uint64, error) {
	rv, err := t.list(ctx, t.firstList.sweep, &t.firstList.listing)
	if err == nil {
		err = t.endMissing(ctx, t.firstList.sweep, rv)
	}
	if errors.Is(err, errBehind) { // of an object, or of the revision that the list began at
		err = cmp.Or(t.doubt(ctx), errRolledBack)
	}
	return rv, err
}

// openFirst says that the first list begins, unless the log has that from an earlier
// process: objects were announced behind it.
func (t *Target) openFirst(ctx context.Context) error {
	f := &t.firstList
	if f.opened || t.firstRun.Run == 0 {
		return nil
	}
	begin := t.Record(event.Begin)
	last, ok, err := t.Log.Last(ctx, &begin)
	if err != nil {
		return fmt.Errorf("%w: read the last begin event: %w", emit.ErrLog, err)
	}
	if !ok || last.Run != t.firstRun.Run {
		if err := t.EmitBound(ctx, event.Begin, t.firstRun.Run, t.firstRun.Began, false); err != nil {
			return err
		}
	}
	f.opened = true
	return nil
}

// complete ends the first list.
func (t *Target) complete(ctx context.Context, rv uint64) error {
	if t.firstList.broken && (t.lost != nil || !t.firstRun.Lost && t.firstRun.Began < rv) {
		gap := event.GapInfo{From: t.firstRun.Began, To: rv, Reason: recovery.ReasonBroken, Recovered: event.RecoveredState}
		if t.lost != nil {
			gap.Reason = t.lost.Reason
		}
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
	}
	if t.firstRun.Lost {
		gap := event.GapInfo{To: rv, Reason: recovery.ReasonJournal, Recovered: event.RecoveredState}
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.Logger.Warn("history lost; declaring a gap", "reason", recovery.ReasonJournal, "to", rv, "recovered", gap.Recovered,
			"runbook", display.GapRunbook(recovery.ReasonJournal))
	}
	if err := t.EmitBound(ctx, event.Synced, t.firstRun.Run, rv, false); err != nil {
		return err
	}
	t.firstList, t.firstRun, t.lost = firstList{}, firstRun{}, nil
	t.boundsMissing = 0
	t.forgetFormer()
	t.setCursor(rv)
	t.proven = 0
	t.Coverage.Compared(0) // nothing is promised of what was before
	t.clean = rv
	t.unwatched.fail() // until the first watch is open
	t.Status.Synced.Store(true)
	t.Status.Progressed()
	t.resetPause()
	return t.markNow(ctx)
}
