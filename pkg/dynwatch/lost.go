package dynwatch

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// expire notes that the watch could not be resumed and decides what comes next.
func (t *reconciler) expire(err error) error {
	oldest := listwatch.OldestNamed(err)
	switch l := t.lost; {
	case l == nil:
		t.logger.Info("history expired; trying another connection", "resource_version", t.cursor, "oldest", oldest)
		t.lost = &recovery.Lost{Phase: recovery.Asking, From: t.resume(), Reason: recovery.ReasonExpired, Oldest: oldest}
	default:
		t.reconciles++
		l.Phase, l.Oldest, l.Absent = recovery.Reconciling, oldest, nil
	}
	return nil
}

// found ends the making up: state and deletions are known as of rv, what lay
// between is declared, unless every revision of it came out.
func (t *reconciler) found(ctx context.Context, rv uint64) error {
	l := t.lost
	to := rv
	if l.Phase == recovery.Settling {
		to = l.Oldest // from there on the watch brought everything
	}
	gap := event.GapInfo{From: l.From, To: to, Reason: l.Reason, Recovered: l.Recovered()}
	if !l.Walks() || l.From < to {
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.logger.Warn("history lost; declaring a gap", "reason", l.Reason, "from", l.From, "to", to, "recovered", gap.Recovered)
	} else {
		t.logger.Info("expired history read from etcd; no gap", "to", to)
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	t.lost, t.dropped.doubtful = nil, nil
	t.setCursor(rv)
	t.proven = 0
	t.coverage.ForgetLeftOut(rv)
	t.clean = rv
	t.status.progressNow()
	t.resetPause()
	return t.markNow(ctx)
}
