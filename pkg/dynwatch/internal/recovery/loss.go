package recovery

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
)

// Phase is how far the recovery of lost history has come.
type Phase int

// The phases.
const (
	// Asking: the watch is tried once more, on a separate connection, which may
	// reach an API server that still has the history.
	Asking Phase = iota
	// Reconciling: a list is compared with the index. From here on the watch must
	// not be resumed from before: the index is ahead of it.
	Reconciling
	// Settling: the watch runs, and has not yet passed the list's revision.
	Settling
)

// The reasons of gaps.
const (
	// ReasonExpired: the API server's history does not reach back to the cursor.
	ReasonExpired = "expired"
	// ReasonRollback: the API server's storage was restored to an older state.
	ReasonRollback = "rollback"
	// ReasonUnserved: the resource was removed while no watch was open.
	ReasonUnserved = "unserved"
	// ReasonNamespace: the target's namespace was deleted with the permission to read it.
	ReasonNamespace = "namespace-deleted"
	// ReasonBroken: the first list had to begin again.
	ReasonBroken = "list-restarted"
	// ReasonJournal: the journal has lost events, or the checkpoint of the target.
	ReasonJournal = "journal"
	// ReasonSelection: the selectors were changed while informd was down, or what was
	// filtered out of a namespace that matched by then is unknown.
	ReasonSelection = "selection"
	// ReasonBehind: the watch brought nothing although objects had changed.
	ReasonBehind = "behind"
	// ReasonAudit: an audit found that the watch had left something out.
	ReasonAudit = "audit"
)

// Lost is a stretch of history that the API server no longer has. It begins
// behind the cursor of the moment of the loss.
type Lost struct {
	Phase  Phase
	From   uint64
	Reason string
	// Oldest is a revision from which a watch can begin, as the API server's
	// error names it; 0 if it names none.
	Oldest uint64
	// Unsure: an audit found only what change filters may have skipped. No gap follows a list at the position.
	Unsure bool
	// Tried: a reconcile was begun. If it failed, etcd may have been restored since.
	Tried bool
	// Absent are the entries that the list at revision Settled did not hold. A frame
	// may still explain them; what none has explained by then is deleted.
	Settled uint64
	Absent  []Absent
	// Blind: some deletions are unknown.
	Blind bool
	// Deleted are the objects that were announced as deleted meanwhile. The list that lacked
	// one may be of a history that etcd has gone back behind since.
	Deleted *Deleted

	// Torn: revisions are missing of an object that existed at either end. It is
	// in the log's checkpoint before the first event that hides one.
	Torn bool
	Effort
}

// Effort is what the walks of a gap have cost.
type Effort struct {
	// Answers is how many older revisions were read, Requests how many were asked
	// for, Spent what that took.
	Answers, Requests int
	Spent             time.Duration
	// Lenient: some revision cannot be read for long. Walks leave it out.
	Lenient bool
}

// Absent is an entry that a list did not hold, and its revision then.
type Absent struct {
	Entry index.Handle
	RV    uint64
}

// NoteDeleted notes that an object was announced as deleted at revision rv.
func (l *Lost) NoteDeleted(uid string, rv uint64) {
	if l.Deleted == nil {
		l.Deleted = NewDeleted()
	}
	l.Deleted.Add(uid, rv)
}

// Walks reports whether the revisions that were lost can be read from etcd one by one.
func (l *Lost) Walks() bool { return l.Reason == ReasonExpired || l.Reason == ReasonBehind }

// Recovered says how much of the lost range came out.
func (l *Lost) Recovered() event.Recovered {
	switch {
	case l.Blind:
		return event.RecoveredPartial
	case !l.Walks():
		return event.RecoveredState
	case !l.Torn:
		return event.RecoveredKnown
	case l.Answers > 0:
		return event.RecoveredPartial
	default:
		return event.RecoveredState
	}
}
