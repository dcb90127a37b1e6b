package reconcile

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// Expire notes that the watch could not be resumed and decides what comes next.
func (t *Reconciler) Expire(err error) error {
	oldest := listwatch.OldestNamed(err)
	switch l := t.Lost; {
	case l == nil:
		t.Logger.Info("history expired; trying another connection", "resource_version", t.Cursor, "oldest", oldest)
		t.Lost = &recovery.Lost{Phase: recovery.Asking, From: t.Resume(), Reason: recovery.ReasonExpired, Oldest: oldest}
	default:
		t.reconciles++
		l.Phase, l.Oldest, l.Absent = recovery.Reconciling, oldest, nil
	}
	return nil
}

// found ends the making up: state and deletions are known as of rv, what lay
// between is declared, unless every revision of it came out.
func (t *Reconciler) found(ctx context.Context, rv uint64) error {
	l := t.Lost
	to := rv
	if l.Phase == recovery.Settling {
		to = l.Oldest // from there on the watch brought everything
	}
	gap := event.GapInfo{From: l.From, To: to, Reason: l.Reason, Recovered: l.Recovered()}
	if !l.Walks() || l.From < to {
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.Logger.Warn("history lost; declaring a gap", "reason", l.Reason, "from", l.From, "to", to, "recovered", gap.Recovered)
	} else {
		t.Logger.Info("expired history read from etcd; no gap", "to", to)
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	t.Lost, t.Dropped.Doubtful = nil, nil
	t.SetCursor(rv)
	t.Proven = 0
	t.Coverage.ForgetLeftOut(rv)
	t.Clean = rv
	t.Status.Progressed()
	t.ResetPause()
	return t.MarkNow(ctx)
}
