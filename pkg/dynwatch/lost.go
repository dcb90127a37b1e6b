package dynwatch

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// phase is how far making up for lost history has come.
type phase int

const (
	// asking: the watch is tried once more, on a connection of its own, which may
	// reach an API server that still has the history.
	asking phase = iota
	// reconciling: a list is compared with the index. From here on the watch must
	// not be resumed from before: the index is ahead of it.
	reconciling
	// settling: the watch runs, and has not yet passed the list's revision.
	settling
)

// The reasons of gaps.
const (
	// reasonExpired: the API server's history does not reach back to the cursor.
	reasonExpired = "expired"
	// reasonRollback: the API server's storage went back to an older state.
	reasonRollback = "rollback"
	// reasonUnserved: the resource was removed while no watch was open.
	reasonUnserved = "unserved"
	// reasonNamespace: the target's namespace was deleted with the permission to read it.
	reasonNamespace = "namespace-deleted"
	// reasonBroken: the first list had to be begun anew.
	reasonBroken = "list-restarted"
	// reasonJournal: the journal has lost events, or where the target stood.
	reasonJournal = "journal"
	// reasonSelection: the selectors were changed while informd was down, or what was
	// left out of a namespace that matched by then cannot be told.
	reasonSelection = "selection"
	// reasonBehind: the watch brought nothing although objects had changed.
	reasonBehind = "behind"
	// reasonAudit: an audit found that the watch had left something out.
	reasonAudit = "audit"
)

// lost is a stretch of history that the API server no longer has. It begins
// behind the cursor of the moment of the loss.
type lost struct {
	phase  phase
	from   uint64
	reason string
	// oldest is a revision from which a watch can begin, as the API server's
	// error names it; 0 if it names none.
	oldest uint64
	// Settling: entries that the list at revision settled did not hold. A frame
	// may still explain them; what none has explained by then is deleted.
	settled uint64
	absent  []absentEntry
	// blind: some deletions could not be told.
	blind bool
	// gone are the objects that were announced as deleted meanwhile. The list that lacked
	// one may be of a history that etcd has gone back behind since.
	gone *former

	// torn: revisions are missing of an object that existed at either end. It is
	// in the log's mark before the first event that hides one, see markLost.
	torn bool
	// answers is how many older revisions were read, requests how many were asked
	// for, spent what that took. Setbacks counts walks that broke off.
	answers, requests int
	spent             time.Duration
	setbacks          int
}

type absentEntry struct {
	entry index.Handle
	rv    uint64
}

// noteGone notes that an object was announced as deleted at revision rv.
func (l *lost) noteGone(uid string, rv uint64) {
	if l.gone == nil {
		l.gone = newFormer()
	}
	l.gone.add(uid, rv)
}

// walks reports whether the revisions that were lost can be read from etcd one by one.
func (l *lost) walks() bool { return l.reason == reasonExpired || l.reason == reasonBehind }

// recovered says how much of the lost range came out.
func (l *lost) recovered() event.Recovered {
	switch {
	case l.blind:
		return event.RecoveredPartial
	case !l.walks():
		return event.RecoveredState
	case !l.torn:
		return event.RecoveredKnown
	case l.answers > 0:
		return event.RecoveredPartial
	default:
		return event.RecoveredState
	}
}

// expire notes that the watch could not be resumed and decides what comes next.
func (t *target) expire(err error) error {
	oldest := listwatch.OldestNamed(err)
	switch l := t.lost; {
	case l == nil:
		t.logger.Info("history expired; trying another connection", "resource_version", t.cursor, "oldest", oldest)
		t.lost = &lost{phase: asking, from: t.resume(), reason: reasonExpired, oldest: oldest}
	default:
		t.reconciles++
		l.phase, l.oldest, l.absent = reconciling, oldest, nil
	}
	return nil
}

// found ends the making up: state and deletions are known as of rv, what lay
// between is declared, unless every revision of it came out.
func (t *target) found(ctx context.Context, rv uint64) error {
	l := t.lost
	to := rv
	if l.phase == settling {
		to = l.oldest // from there on the watch brought everything
	}
	gap := event.GapInfo{From: l.from, To: to, Reason: l.reason, Recovered: l.recovered()}
	if !l.walks() || l.from < to {
		if err := t.EmitGap(ctx, gap); err != nil {
			return err
		}
		t.logger.Warn("history lost; declaring a gap", "reason", l.reason, "from", l.from, "to", to, "recovered", gap.Recovered)
	} else {
		t.logger.Info("expired history read from etcd; no gap", "to", to)
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	t.lost, t.dropped.doubtful = nil, nil
	t.setCursor(rv)
	t.calm.proven = 0
	t.coverage.ForgetLeftOut(rv)
	t.audits.clean = rv
	t.status.progressNow()
	t.resetPause()
	return t.markNow(ctx)
}
