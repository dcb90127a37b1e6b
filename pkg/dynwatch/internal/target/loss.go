package target

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// The reasons of gaps.
const (
	// reasonExpired: the API server's history does not reach back to the position.
	reasonExpired = "expired"
	// reasonRollback: the API server's storage was restored to an older state.
	reasonRollback = "rollback"
	// reasonUnserved: the resource was removed while no watch was open.
	reasonUnserved = "unserved"
	// reasonNamespace: the target's namespace was deleted with the permission to read it.
	reasonNamespace = "namespace-deleted"
	// reasonBroken: the first list had to begin again.
	reasonBroken = "list-restarted"
	// reasonJournal: the journal has lost events, or the checkpoint of the target.
	reasonJournal = "journal"
	// reasonSelection: the selectors were changed while informd was down, or what was
	// filtered out of a namespace that matched by then is unknown.
	reasonSelection = "selection"
	// reasonBehind: the watch brought nothing although objects had changed.
	reasonBehind = "behind"
	// reasonAudit: an audit found that the watch had left something out.
	reasonAudit = "audit"
)

// loss is a stretch of history that the watch has not brought and does not bring any more. It begins behind
// revision from.
type loss struct {
	reason string
	from   uint64
	// oldest is a revision from which a watch can begin, as the API server's error names it; 0 if it names none.
	oldest uint64
	// resumed: a process before has begun the recovery, and the log may have events of it.
	resumed bool
	// found is how many objects an audit has found to differ. Audited is its outcome.
	found   int
	audited AuditResult
	// tried: a recovery was begun. If it failed, etcd may have been restored since.
	tried bool
	// unreadable: some deletions are unknown, as a list had objects without a readable identity.
	unreadable bool
	// incomplete: revisions are missing of an object that existed at either end. It is
	// in the log's checkpoint before the first event that hides one.
	incomplete bool

	// failures counts what has failed while the API server answered other requests, see [Target.recover].
	failures int
	// answers is how many older revisions the walks have read, requests how many were asked for, spent what that took.
	answers, requests int
	spent             time.Duration
}

// lossError ends what the target does: it recovers the loss next.
type lossError struct{ of *loss }

func (e lossError) Error() string { return "history is lost, reason: " + e.of.reason }

// isLoss reports whether an error is a loss of history.
func isLoss(err error) bool {
	_, is := errors.AsType[lossError](err)
	return is
}

// An API server can answer one request with errors for ever, and all others well: etcd has an object that cannot be
// decoded or decrypted at that revision, or a proxy refuses what it does not know. So a recovery takes another way
// after a number of failures, which loses no more than it declares.
const (
	// failuresOfExact is after how many failures the list is one of now.
	failuresOfExact = 3
	// failuresOfWalk is after how many a walk leaves out what it cannot read.
	failuresOfWalk = 6
	// failuresOfMetadata is after how many the list is one of whole objects, and what a look-up by name would tell
	// counts as unknown.
	failuresOfMetadata = 9
)

// lasts reports whether an error may be one that does not pass, if the API server answers other requests: that of an
// overloaded server, another cluster, a wrong list and the end of the target do.
func lasts(err error) bool {
	_, busy := kube.Throttled(err)
	passes := busy || errors.Is(err, context.Canceled) || errors.Is(err, kube.ErrOtherCluster) || errors.Is(err, listwatch.ErrWrongList)
	return err != nil && !passes && !isLoss(err)
}

// declares reports whether a gap follows. Nothing may be missing where an audit has only begun to compare again.
func (l *loss) declares() bool { return l.reason != reasonAudit || l.found > 0 || l.resumed }

// walks reports whether the revisions that were lost can be read from etcd one by one.
func (l *loss) walks() bool { return l.reason == reasonExpired || l.reason == reasonBehind }

// recovered says how much of the lost range came out.
func (l *loss) recovered() event.Recovered {
	switch {
	case l.unreadable:
		return event.RecoveredPartial
	case !l.walks():
		return event.RecoveredState
	case !l.incomplete:
		return event.RecoveredKnown
	case l.answers > 0:
		return event.RecoveredPartial
	default:
		return event.RecoveredState
	}
}
