package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// maxReconciles is how often in a row a reconcile aims at the oldest revision of
// the watch cache, and walks, before it takes a list and watches from there.
const maxReconciles = 3

// inOrder notes that the watch has brought something in order.
func (t *Target) inOrder() { t.reconciles = 0 }

// reconcile recovers lost history as far as lists can. The revision of the list depends on
// the history that the API server still has.
func (t *Target) reconcile(ctx context.Context) error {
	l := t.lost
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	l.Torn = l.Torn || t.Coverage.Leaves() // what such namespaces had is not compared any more
	t.setState(status.Syncing, "reconciling from a list, reason: "+l.Reason)
	if err := t.markLost(ctx); err != nil {
		return err
	}
	if l.Reason == recovery.ReasonRollback {
		return t.reconcileRollback(ctx)
	}
	if rolledBack, err := t.recheck(ctx); rolledBack || err != nil {
		return err
	}
	if l.Reason == recovery.ReasonAudit {
		return t.reconcileHere(ctx)
	}
	l.Torn = l.Torn || t.reconciles > maxReconciles
	// A watch begins behind the cursor; a revision before it would bring nothing.
	if l.Oldest < l.From || t.reconciles > maxReconciles {
		return t.reconcileNow(ctx)
	}
	var err error
	if !t.Coverage.Outdated() { // else only the watch knows what is newer than the log
		err = t.reconcileAt(ctx, l.Oldest)
	}
	if t.Coverage.Outdated() || listwatch.Expired(err) || listwatch.Unsupported(err) {
		err = t.reconcileAround(ctx, l.Oldest)
	}
	if listwatch.Unsupported(err) {
		err = t.reconcileNow(ctx)
	}
	return err
}

// recheck looks for a rollback before another attempt. An API server refuses a list at a revision
// that etcd does not have any more: without this check such a list would be requested until etcd
// has reached that revision again.
func (t *Target) recheck(ctx context.Context) (rolledBack bool, err error) {
	if t.lost.Tried {
		return t.checkRollback(ctx)
	}
	t.lost.Tried = true
	return false, nil
}

// reconcileAt is the case in which etcd still holds the revision: list there,
// watch from there.
func (t *Target) reconcileAt(ctx context.Context, at uint64) error {
	s := t.NewPass(Pass{At: at, Newcomer: event.Added, Replay: true})
	rv, err := t.Compare(ctx, s)
	if err != nil {
		return err
	}
	return t.foundByList(ctx, s, rv)
}

// foundByList ends a reconcile that a list at rv has decided.
func (t *Target) foundByList(ctx context.Context, s *Pass, rv uint64) error {
	if err := t.endMissing(ctx, s, rv); err != nil {
		return err
	}
	t.forgetEnds(rv)
	return t.found(ctx, rv)
}

// reconcileAround is the case in which etcd has compacted that revision: a list
// of now announces what has not changed since, the watch brings the rest, and
// what neither explains is deleted once the watch has passed the list. There is
// nothing to walk: etcd has forgotten the whole of the range.
func (t *Target) reconcileAround(ctx context.Context, oldest uint64) error {
	l := t.lost
	l.Torn = true
	s := t.NewPass(Pass{Horizon: oldest, Newcomer: event.Added, Replay: true})
	if t.Coverage.Outdated() { // the log has all other objects up to there
		s.Newcomer, s.Cause = event.Entered, t.Coverage.At()
	}
	rv, err := t.Compare(ctx, s)
	if err != nil {
		return err
	}
	if rv < t.Cursor {
		return t.doubt(ctx)
	}
	l.Phase, l.Settled = recovery.Settling, rv
	for _, e := range t.missing(s) {
		l.Absent = append(l.Absent, recovery.Absent{Entry: t.Index.Handle(e), RV: e.RV})
	}
	// What else ended at that revision is absent: no watch need begin before it.
	t.forgetEnds(oldest)
	t.setCursor(oldest)
	return t.settle(ctx)
}

// reconcileNow is the case in which the API server names no revision, or its
// cache moves on too fast: list now, watch from there.
func (t *Target) reconcileNow(ctx context.Context) error {
	s := t.NewPass(Pass{Newcomer: event.Added, Replay: true})
	rv, err := t.Compare(ctx, s)
	if listwatch.Unsupported(err) {
		t.lost.Torn = true
		s = t.NewPass(Pass{Newcomer: event.Added, Replay: true})
		rv, err = t.list(ctx, s, &listwatch.Listing{})
	}
	if err != nil {
		return err
	}
	if rv < t.Cursor {
		return t.doubt(ctx)
	}
	return t.foundByList(ctx, s, rv)
}

// reconcileHere compares the index with a list at the cursor, so that the watch
// resumes behind it and misses nothing more. A wrong list does not end the watch for good: there may be no
// other API server.
func (t *Target) reconcileHere(ctx context.Context) error {
	err := t.reconcileAt(ctx, t.Cursor)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		if l := t.lost; l.Unsure { // the watch will not bring what is between the position and that list
			l.Unsure, l.From = false, max(l.From, t.resume())
		}
		err = t.reconcileNow(ctx)
	}
	if errors.Is(err, listwatch.ErrWrongList) {
		t.lost = nil // nothing says that the watch is wrong
		return nil
	}
	return err
}

// settle ends a reconcile once the watch has passed the list's revision.
func (t *Target) settle(ctx context.Context) error {
	l := t.lost
	if l == nil || l.Phase != recovery.Settling || t.Cursor < l.Settled {
		return nil
	}
	for _, a := range l.Absent {
		e := t.Index.ByHandle(a.Entry)
		if e == nil || e.RV != a.RV {
			continue // a frame explained it
		}
		key := index.Key(t.Index.Namespace(e), t.Index.Name(e))
		if err := t.endAbsent(ctx, e, l.Settled); err != nil {
			return err
		}
		// The watch has yet to bring the other deletions at the list's revision. It must not
		// end these objects again.
		if t.resume() < l.Settled && t.Index.ByHandle(a.Entry) == nil {
			t.ended[key] = l.Settled
		}
	}
	return t.found(ctx, t.Cursor)
}

// Compare does a sweep with metadata only, walks back from what differs, and then
// fetches the bodies of it. It returns the list's revision.
func (t *Target) Compare(ctx context.Context, s *Pass) (uint64, error) {
	differing, rv, err := t.differences(ctx, s)
	if err != nil {
		return rv, err
	}
	if s.At = rv; s.Horizon == 0 {
		if err := t.walk(ctx, t.queries(s, differing)); err != nil {
			return rv, err
		}
	}
	if t.lost != nil { // what is fetched may hide revisions
		if err := t.markLost(ctx); err != nil {
			return rv, err
		}
	}
	return rv, t.fetch(ctx, s, differing)
}

// reconcileRollback compares everything, content too: the same revision number
// may now mean another state.
func (t *Target) reconcileRollback(ctx context.Context) error {
	s := t.NewPass(Pass{Newcomer: event.Added, Replay: true, Rollback: true})
	rv, err := t.list(ctx, s, &listwatch.Listing{})
	if err != nil {
		return err
	}
	return t.foundByList(ctx, s, rv)
}

// found ends the making up: state and deletions are known as of rv. What lay
// between is declared, unless nothing did.
func (t *Target) found(ctx context.Context, rv uint64) error {
	l := t.lost
	to := rv
	if l.Phase == recovery.Settling {
		to = l.Oldest // from there on the watch brought everything
	}
	gap := event.GapInfo{From: l.From, To: to, Reason: l.Reason, Recovered: l.Recovered()}
	if t.Coverage.Outdated() {
		t.Coverage.Widen(&gap)
	}
	if !l.Unsure && (!l.Walks() || l.From < to) {
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.Logger.Warn("history lost; declaring a gap", "reason", l.Reason, "from", l.From, "to", to, "recovered", gap.Recovered,
			"runbook", display.GapRunbook(l.Reason))
	} else {
		t.Logger.Info("no revision is missing; no gap", "to", to)
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	t.lost = nil
	t.setCursor(rv)
	t.proven = 0
	t.Coverage.Compared(rv)
	t.clean = rv
	t.Status.Progressed()
	if t.reconciles <= 1 {
		t.resetPause()
	}
	return t.markNow(ctx)
}

// expire notes that the watch could not be resumed (410 Gone) and decides what comes next. The error
// says that a watch after a reconcile fared no better, so that the target pauses first.
func (t *Target) expire(err error) error {
	if t.lost == nil && t.Coverage.GiveUp() {
		return nil
	}
	oldest := listwatch.OldestNamed(err)
	switch l := t.lost; {
	case l == nil:
		t.Logger.Info("history expired; trying another connection", "resource_version", t.Cursor, "oldest", oldest)
		t.lost = &recovery.Lost{Phase: recovery.Asking, From: t.resume(), Reason: recovery.ReasonExpired, Oldest: oldest}
	default:
		t.reconciles++
		l.Phase, l.Oldest, l.Absent = recovery.Reconciling, oldest, nil
		if t.reconciles > 1 {
			return fmt.Errorf("resume the watch after a reconcile: %w", err)
		}
	}
	return nil
}
