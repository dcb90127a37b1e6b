package target

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// state is what a target does: preparing, listing, following, recovering or stopped. What it knows only while it
// does that is in the state, and gone with it. [Target.step] does one step of a state and returns the next one;
// after an error, [after] says where the target goes on.
//
//	state       a step                                  done                   history is lost
//	preparing   read the log, find the resource,        then                   recovering
//	            wait for the Namespaces
//	listing     read the first list                     following              listing, all objects again
//	following   watch from the position                 following; recovering  recovering
//	            once refused (410): over another        after a second 410
//	            connection
//	recovering  compare a list with the log             following              recovering again
//	stopped
//
// A resource that is not served (404) leads to preparing, and from there back to the same state; one that was removed,
// with its objects announced as deleted, to listing. After any other error the target pauses and repeats the
// step. An error of the log, and the end of the context, stop it.
type state interface {
	// below is the state that a target prepares for or was stopped in, otherwise the state itself.
	below() state
}

// preparing: the target has no log, no resource, or no Namespaces yet. Then is what it does next, nil until the
// log was read.
type preparing struct{ then state }

// following: the target watches from its position.
type following struct{}

// recovering: what was lost is read from a list, and from etcd.
type recovering struct{ lost *loss }

// stopped: the loop has ended in a state, because of an error of the log or because its context has ended.
type stopped struct{ in state }

func (s preparing) below() state  { return s.then }
func (f *listing) below() state   { return f }
func (s following) below() state  { return s }
func (s recovering) below() state { return s }
func (s stopped) below() state    { return s.in.below() }

// errEnd says that the context of the target has ended.
var errEnd = errors.New("the target is not wanted any more")

// removed is an error after which all objects were announced as deleted: the resource or the namespace is gone.
type removed struct{ error }

func (r removed) Unwrap() error { return r.error }

// after is the state in which a target goes on whose step in a state has ended with an error.
func after(s state, err error) state {
	_, prepares := s.(preparing)
	if _, gone := errors.AsType[removed](err); gone && prepares {
		s = preparing{then: new(listing)}
	} else if gone {
		s = new(listing)
	}
	if l, lost := errors.AsType[lossError](err); lost {
		if first, lists := s.(*listing); lists {
			return first.again()
		}
		if prepares {
			return preparing{then: recovering{lost: l.of}}
		}
		return recovering{lost: l.of}
	}
	switch {
	case errors.Is(err, emit.ErrLog), errors.Is(err, errEnd):
		return stopped{in: s}
	case unserved(err) && !prepares:
		return preparing{then: s}
	default:
		return s
	}
}

// unserved reports whether the API server does not serve the resource.
func unserved(err error) bool { return errors.Is(err, kube.ErrNotServed) || apierrors.IsNotFound(err) }

// loop is what a target does, and with that what it knows only while it does so.
type loop struct{ state state }

// first is the first list, nil while there is none to be read.
func (lp *loop) first() *listing {
	l, _ := lp.state.below().(*listing)
	return l
}

// loss is the history that is being recovered, nil if there is none.
func (lp *loop) loss() *loss {
	s, recovers := lp.state.below().(recovering)
	if !recovers {
		return nil
	}
	return s.lost
}

// restored reports whether it is known what the log has.
func (lp *loop) restored() bool { return lp.state.below() != nil }

// lostBy reports whether history of a reason is being recovered.
func (lp *loop) lostBy(reason string) bool {
	l := lp.loss()
	return l != nil && l.reason == reason
}

// rolledBack reports whether etcd was restored since the events of the index, so that all objects are compared.
func (lp *loop) rolledBack() bool {
	f := lp.first()
	return f != nil && f.restored || lp.lostBy(reasonRollback)
}

// edited reports whether all objects are compared because the selectors of the config were edited.
func (lp *loop) edited(c *selection.Coverage) bool {
	return lp.lostBy(reasonSelection) && !c.Outdated()
}

// unanswerable reports whether a look-up by name has no answer: the API server does not support it, or such requests
// have failed too often while it answered others.
func (lp *loop) unanswerable(err error) bool {
	if listwatch.Unsupported(err) {
		return true
	}
	failures := 0
	if l := lp.loss(); l != nil {
		failures = l.failures
	} else if f := lp.first(); f != nil {
		failures = f.failures
	}
	return failures >= failuresOfMetadata && lasts(err) && !errors.Is(err, emit.ErrLog)
}

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
