package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// listing is the first list, and how far it has come: a page that breaks off is read
// again, and only a list that cannot be continued begins again.
type listing struct {
	// from is a revision from before anything was announced, 0 if the list has not begun, and number the run of
	// all that belongs to it. A restart of the process or of the list does not change them: what was announced
	// before stays part of it. Where the log has lost events, each process begins another run.
	from, number uint64
	// lost is the reason of a gap, or "": the log has lost some or all events of the target, or they are of another
	// one, so that not all deletions before the list are known. So the list names every object, also those that
	// the index has: a consumer may hold objects that no longer exist.
	lost string
	// restored: etcd was restored since the list began.
	restored bool
	// pass compares the list, nil until it has begun, and pages is where it has come to. Announced is the round of all
	// passes.
	pass      *Pass
	pages     listwatch.Listing
	announced uint32
	// opened: the log has the begin event.
	opened bool
	// broken: a list began again after it had announced objects, whose
	// revisions between the two lists are unknown.
	broken bool
	// refused counts the answers by which the server refused to continue the list, and failures what has failed
	// behind complete lists, as in a [loss].
	refused, failures int
}

// maxRefused is how often a server may refuse to continue the first list until the list begins
// again. One of several API servers may know the token.
const maxRefused = 3

// run is the run of the list, 0 if there is none.
func (f *listing) run() uint64 {
	if f == nil {
		return 0
	}
	return f.number
}

// began is a revision from before the list, 0 if there is none.
func (f *listing) began() uint64 {
	if f == nil {
		return 0
	}
	return f.from
}

// round is what the index notes of objects that are announced, 0 if there is no list that names every object.
func (f *listing) round() uint32 {
	if !f.repeats() {
		return 0
	}
	return f.announced
}

// repeats reports whether the list names every object.
func (f *listing) repeats() bool { return f != nil && f.lost != "" }

// recovered says how much of a gap before the list came out: if an object has no readable identity, not all deletions.
func (f *listing) recovered() event.Recovered {
	if f.pass.Unreadable {
		return event.RecoveredPartial
	}
	return event.RecoveredState
}

// again begins the list again, as etcd was restored.
func (f *listing) again() *listing {
	f.broken = f.broken || f.pass != nil
	f.pass, f.restored = nil, true
	return f
}

// ended reports whether the list cannot be continued after an error. Other errors pass.
func (f *listing) ended(err error) bool {
	if listwatch.Unsupported(err) {
		f.refused++
	}
	return f.pages.Next == "" || listwatch.Expired(err) || f.refused >= maxRefused
}

// readFirst reads the first list: everything in it is announced, between a begin and a synced event.
func (t *Target) readFirst(ctx context.Context, f *listing) (state, error) {
	if f.from == 0 {
		if err := t.beginFirst(ctx, f); err != nil {
			return f, err
		}
	}
	if f.repeats() && !f.restored {
		if err := t.checkRollback(ctx); err != nil {
			return f, err
		}
	}
	t.shown.set(status.Syncing, "reading the first list") // not before: a forbidden target stays so
	if err := f.open(ctx, t.Writer); err != nil {
		return f, err
	}
	if f.pass == nil {
		f.pass = t.Objects.NewPass(Pass{Newcomer: t.Discovery.FirstOp, Rollback: f.restored, Round: f.announced})
		f.announced, f.pages, f.refused = f.pass.Round, listwatch.Listing{}, 0
		f.broken = f.broken || t.Index.Len() > 0
	}
	rv, err := t.list(ctx, f.pass, &f.pages)
	if err == nil {
		if err = t.Objects.endMissing(ctx, f.pass, rv); lasts(err) && !errors.Is(err, errBehind) {
			f.failures++
		}
	}
	if errors.Is(err, errBehind) { // of an object, or of the revision that the list began at
		err = t.behindPosition(ctx)
	}
	switch {
	case err == nil:
		return t.complete(ctx, f, rv)
	case !isLoss(err) && f.ended(err):
		f.pass = nil
	}
	return f, err
}

// beginFirst notes a revision from before the first list.
func (t *Target) beginFirst(ctx context.Context, f *listing) error {
	if !f.repeats() {
		t.rollbacks.pass()
	}
	rv, err := t.Discovery.Source.Revision(ctx)
	if err != nil {
		return err
	}
	f.from, f.number = rv, t.Runs.Next()
	return t.markNow(ctx)
}

// open says that the list begins, unless the log has that from an earlier
// process: objects were announced behind it.
func (f *listing) open(ctx context.Context, w *emit.Writer) error {
	if f.opened {
		return nil
	}
	begin := w.Record(event.Begin)
	last, ok, err := w.Log.Last(ctx, &begin)
	if err != nil {
		return fmt.Errorf("%w: read the last begin event: %w", emit.ErrLog, err)
	}
	if !ok || last.Run != f.number {
		if err := w.EmitBound(ctx, event.Begin, f.number, f.from, false); err != nil {
			return err
		}
	}
	f.opened = true
	return nil
}

// complete ends the first list.
func (t *Target) complete(ctx context.Context, f *listing, rv uint64) (state, error) {
	if f.broken && (f.restored || !f.repeats() && f.from < rv) {
		gap := event.GapInfo{From: f.from, To: rv, Reason: reasonBroken, Recovered: f.recovered()}
		if f.restored {
			gap.Reason = reasonRollback
		}
		if err := t.Writer.EmitGap(ctx, gap); err != nil {
			return f, err
		}
	}
	if f.repeats() {
		gap := event.GapInfo{To: rv, Reason: f.lost, Recovered: f.recovered()}
		if err := t.Writer.EmitGap(ctx, gap); err != nil {
			return f, err
		}
		t.Logger.Warn("history lost; declaring a gap", "reason", f.lost, "to", rv, "recovered", gap.Recovered,
			"runbook", display.GapRunbook(f.lost))
	}
	if err := t.Writer.EmitBound(ctx, event.Synced, f.number, rv, false); err != nil {
		return f, err
	}
	t.position.set(rv)
	t.position.proven = 0
	t.Coverage.Listed()
	t.position.clean = rv
	t.Discovery.unwatched.fail() // until the first watch is open
	t.Status.Synced.Store(true)
	t.Status.Progressed()
	t.pause.reset()
	return following{}, nil
}
