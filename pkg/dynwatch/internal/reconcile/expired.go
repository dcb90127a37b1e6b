package reconcile

import (
	"fmt"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// Expire notes that the watch could not be resumed (410 Gone) and decides what comes next. The error
// says that a watch after a reconcile fared no better, so that the target pauses first.
func (t *Reconciler) Expire(err error) error {
	if t.Lost == nil && t.Coverage.GiveUp() {
		return nil
	}
	oldest := listwatch.OldestNamed(err)
	switch l := t.Lost; {
	case l == nil:
		t.Logger.Info("history expired; trying another connection", "resource_version", t.Cursor, "oldest", oldest)
		t.Lost = &recovery.Lost{Phase: recovery.Asking, From: t.Resume(), Reason: recovery.ReasonExpired, Oldest: oldest}
	default:
		t.reconciles++
		l.Phase, l.Oldest, l.Absent = recovery.Reconciling, oldest, nil
		if t.reconciles > 1 {
			return fmt.Errorf("resume the watch after a reconcile: %w", err)
		}
	}
	return nil
}
