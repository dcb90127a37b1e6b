package dynwatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// errBehind: one API server knows less than the target has already seen. It lags,
// or something between here and it answers from a cache.
var errBehind = errors.New("the API server is behind: a newer revision was announced before")

// checkRollback compares the resource's newest revision with the cursor. A watch
// from the future is not refused, it is silent, so this comes before each watch.
func (t *sweeper) checkRollback(ctx context.Context) (bool, error) {
	rv, err := t.source.Revision(ctx)
	if err != nil {
		return false, err
	}
	if rv >= t.cursor {
		t.await.opens(rv, t.limits.patience)
		return false, nil
	}
	return true, t.doubt(ctx)
}

// doubt decides what an answer from before the cursor means: the storage was
// restored from a copy, or the answer was stale. A consistent list is a quorum
// read, so a server that merely lags should not give such an answer; but taking
// one for a rollback by mistake would compare every object and start an epoch. A
// second connection is asked before it is believed.
func (t *sweeper) doubt(ctx context.Context) error {
	rv, err := t.source.RevisionElsewhere(ctx)
	if err != nil {
		return err
	}
	if known := max(t.cursor, t.first.began); rv >= known {
		return fmt.Errorf("%w (revision %d)", errBehind, known)
	}
	if err := t.clients.Identity.Check(ctx); err != nil {
		return err
	}
	t.rollBack()
	return nil
}

// rollBack notes that etcd was restored to an older state: revisions before and after
// are of two histories.
func (t *sweeper) rollBack() {
	t.Epoch++
	t.status.epoch.Store(t.Epoch)
	t.logger.Warn("etcd was restored to an older state; reconciling", "resource_version", t.cursor, "epoch", t.Epoch,
		"next", "if no administrator restored etcd, check its members")
	l := &recovery.Lost{Phase: recovery.Reconciling, From: t.cursor, Reason: recovery.ReasonRollback}
	if t.lost != nil && t.lost.Phase != recovery.Asking {
		l.From, l.Blind = t.lost.From, t.lost.Blind // that gap is not declared yet
	}
	t.lost, t.undecided, t.progress = l, nil, listwatch.Progress{}
	clear(t.ended) // revisions of another history
	t.coverage.Forget()
	t.index.ForgetSkipped()
}

// reconcileRollback compares everything, content too: the same revision number
// may now mean another state.
func (t *reconciler) reconcileRollback(ctx context.Context) error {
	s := t.newSweep(sweep{newcomer: event.Added, replay: true, rollback: true})
	rv, err := t.list(ctx, s, &listwatch.Listing{})
	if err != nil {
		return err
	}
	return t.foundByList(ctx, s, rv)
}
