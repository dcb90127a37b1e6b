package target

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// state is what a target does: waiting, listing, following, recovering or stopped. What it knows only while it
// does that is in the state, and gone with it. [Target.step] does one step of a state and returns the next one;
// after an error, [after] says where the target goes on.
//
//	state       a step                                  done                   history is lost
//	waiting     read the log, find the resource,        then                   recovering
//	            wait for the Namespaces
//	listing     read the first list                     following              listing, all objects again
//	following   watch from the position                 following; recovering  recovering
//	            once refused (410): over another        after a second 410
//	            connection
//	recovering  compare a list with the log             following              recovering again
//	stopped
//
// A resource that is not served (404) leads to waiting, and from there back to the same state; one that was removed,
// with its objects announced as deleted, to listing. After any other error the target pauses and repeats the
// step. An error of the log, and the end of the context, stop it.
type state interface {
	// below is the state that a target waits for or was stopped in, otherwise the state itself.
	below() state
}

// waiting: the target has no log, no resource, or no Namespaces yet. Then is what it does next, nil until the
// log was read.
type waiting struct{ then state }

// following: the target watches from its position.
type following struct{}

// recovering: what was lost is read from a list, and from etcd.
type recovering struct{ lost *loss }

// stopped: the loop has ended in a state, because of an error of the log or because its context has ended.
type stopped struct{ in state }

func (s waiting) below() state    { return s.then }
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
	_, waits := s.(waiting)
	if _, gone := errors.AsType[removed](err); gone && waits {
		s = waiting{new(listing)}
	} else if gone {
		s = new(listing)
	}
	if l, lost := errors.AsType[lossError](err); lost {
		if first, lists := s.(*listing); lists {
			return first.again()
		}
		if waits {
			return waiting{recovering{l.of}}
		}
		return recovering{l.of}
	}
	switch {
	case errors.Is(err, emit.ErrLog), errors.Is(err, errEnd):
		return stopped{s}
	case unserved(err) && !waits:
		return waiting{s}
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
