package dynwatch

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// maxReconciles is how often in a row a reconcile aims at the oldest revision of
// the watch cache, and walks, before it takes a list and watches from there.
const maxReconciles = 3

// reconcile makes up for lost history as far as lists can. Which list depends on
// what the API server still has.
func (t *reconciler) reconcile(ctx context.Context) error {
	l := t.lost
	if err := t.clients.Identity.Check(ctx); err != nil {
		return err
	}
	t.setState(Syncing, "reconciling from a list, reason: "+l.Reason)
	if err := t.markLost(ctx); err != nil {
		return err
	}
	switch {
	case l.Reason == recovery.ReasonRollback:
		return t.reconcileRollback(ctx)
	case l.Reason == recovery.ReasonAudit:
		return t.reconcileHere(ctx)
	}
	l.Torn = l.Torn || t.reconciles > maxReconciles
	// A watch begins behind the cursor; a revision before it would bring nothing.
	if l.Oldest < l.From || t.reconciles > maxReconciles {
		return t.reconcileNow(ctx)
	}
	err := t.reconcileAt(ctx, l.Oldest)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		err = t.reconcileAround(ctx, l.Oldest)
	}
	if listwatch.Unsupported(err) {
		err = t.reconcileNow(ctx)
	}
	return err
}

// reconcileAt is the case in which etcd still holds the revision: list there,
// watch from there.
func (t *reconciler) reconcileAt(ctx context.Context, at uint64) error {
	if done, err := t.retrace(ctx, at); done || err != nil {
		return err
	}
	s := t.newSweep(sweep{at: at, newcomer: event.Added, replay: true})
	rv, err := t.compare(ctx, s)
	if err != nil {
		return err
	}
	return t.foundByList(ctx, s, rv)
}

// foundByList ends a reconcile that a list at rv has decided.
func (t *reconciler) foundByList(ctx context.Context, s *sweep, rv uint64) error {
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
func (t *reconciler) reconcileAround(ctx context.Context, oldest uint64) error {
	l := t.lost
	l.Torn = true
	s := t.newSweep(sweep{horizon: oldest, newcomer: event.Added, replay: true})
	rv, err := t.compare(ctx, s)
	if err != nil {
		return err
	}
	if rv < t.cursor {
		return t.doubt(ctx)
	}
	l.Phase, l.Settled = recovery.Settling, rv
	for _, e := range t.missing(s) {
		l.Absent = append(l.Absent, recovery.Absent{Entry: t.index.Handle(e), RV: e.RV})
	}
	// What else ended at that revision is absent: no watch need begin before it.
	t.forgetEnds(oldest)
	t.setCursor(oldest)
	return t.settle(ctx)
}

// reconcileNow is the case in which the API server names no revision, or its
// cache moves on too fast: list now, watch from there.
func (t *reconciler) reconcileNow(ctx context.Context) error {
	now, err := t.source.Revision(ctx)
	if err != nil {
		return err
	}
	if done, err := t.retrace(ctx, now); done || err != nil {
		return err
	}
	s := t.newSweep(sweep{newcomer: event.Added, replay: true})
	rv, err := t.compare(ctx, s)
	if listwatch.Unsupported(err) {
		t.lost.Torn = true
		s = t.newSweep(sweep{newcomer: event.Added, replay: true})
		rv, err = t.list(ctx, s, &listwatch.Listing{})
	}
	if err != nil {
		return err
	}
	if rv < t.cursor {
		return t.doubt(ctx)
	}
	return t.foundByList(ctx, s, rv)
}

// reconcileHere compares the index with a list at the cursor, so that the watch
// goes on behind it and nothing more is left out.
func (t *reconciler) reconcileHere(ctx context.Context) error {
	err := t.reconcileAt(ctx, t.cursor)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		err = t.reconcileNow(ctx)
	}
	return err
}

// settle ends a reconcile once the watch has passed the list's revision.
func (t *reconciler) settle(ctx context.Context) error {
	l := t.lost
	if l == nil || l.Phase != recovery.Settling || t.cursor < l.Settled {
		return nil
	}
	for _, a := range l.Absent {
		e := t.index.ByHandle(a.Entry)
		if e == nil || e.RV != a.RV {
			continue // a frame explained it
		}
		if err := t.endAbsent(ctx, e, l.Settled); err != nil {
			return err
		}
	}
	return t.found(ctx, t.cursor)
}
