package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// ErrBehind says that one API server knows less than the target has already seen. It lags,
// or something between here and it answers from a cache.
var ErrBehind = errors.New("the API server is behind: a newer revision was announced before")

// CheckRollback compares the resource's newest revision with the cursor. A watch
// from the future is not refused, it is silent, so this comes before each watch.
func (t *Sweeper) CheckRollback(ctx context.Context) (bool, error) {
	rv, err := t.Source.Revision(ctx)
	if err != nil {
		return false, err
	}
	if rv >= t.Cursor {
		t.Await.Opens(rv, t.Limits.Patience)
		return false, nil
	}
	return true, t.Doubt(ctx)
}

// Doubt decides what an answer from before the cursor means: the storage was
// restored from a copy, or the answer was stale. A consistent list is a quorum
// read, so a server that merely lags should not give such an answer; but taking
// one for a rollback by mistake would compare every object and start an epoch. A
// second connection is asked before it is believed.
func (t *Sweeper) Doubt(ctx context.Context) error {
	rv, err := t.Source.RevisionElsewhere(ctx)
	if err != nil {
		return err
	}
	if known := max(t.Cursor, t.First.Began); rv >= known {
		return fmt.Errorf("%w (revision %d)", ErrBehind, known)
	}
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	t.rollBack()
	return nil
}

// rollBack notes that etcd was restored to an older state: revisions before and after
// are of two histories.
func (t *Sweeper) rollBack() {
	t.Epoch++
	t.Status.Epoch.Store(t.Epoch)
	t.Logger.Warn("etcd was restored to an older state; reconciling", "resource_version", t.Cursor, "epoch", t.Epoch,
		"next", "if no administrator restored etcd, check its members")
	l := &recovery.Lost{Phase: recovery.Reconciling, From: t.Cursor, Reason: recovery.ReasonRollback}
	if t.Lost != nil && t.Lost.Phase != recovery.Asking {
		l.From, l.Blind = t.Lost.From, t.Lost.Blind // that gap is not declared yet
	}
	t.Lost, t.Undecided, t.Progress = l, nil, listwatch.Progress{}
	clear(t.Ended) // revisions of another history
	t.Coverage.Forget()
	t.Index.ForgetSkipped()
}
