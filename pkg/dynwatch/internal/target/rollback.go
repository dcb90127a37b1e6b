package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// errBehind says that one API server knows less than the target has already seen. It lags,
// or something between here and it answers from a cache.
var errBehind = errors.New("the API server is behind: a newer revision was announced before")

// rollbacks are those of etcd that any target has found.
type rollbacks struct {
	shared *kube.Rollbacks
	target string
	// considered is the number of the last one that was considered, and next is closed at the next one.
	considered uint64
	next       <-chan struct{}
}

// keep notes at the end of a target which ones it has considered, for the one that follows it with
// the same checkpoint.
func (r *rollbacks) keep() { r.shared.Keep(r.target, r.considered) }

// pass takes all rollbacks until now as considered: nothing was announced before them.
func (r *rollbacks) pass() { r.considered, r.next = r.shared.Last() }

// foundElsewhere reports whether another target has found a rollback of the same store since
// the last call.
func (r *rollbacks) foundElsewhere(ctx context.Context, own kube.Head) (bool, error) {
	last, next := r.shared.Last()
	found, err := r.shared.FoundAfter(ctx, r.considered, own)
	if err == nil {
		r.considered, r.next = last, next
	}
	return found, err
}

// checkRollback compares the resource's newest revision with the newest known one, and returns the loss of a
// rollback. A watch from the future is not refused, it is silent, so this comes before each watch. If the new
// history has passed the position, only another target can have found the rollback.
func (t *Target) checkRollback(ctx context.Context) error {
	rv, err := t.Discovery.Source.Revision(ctx)
	if err != nil {
		return err
	}
	if rv < t.newestKnown() {
		return t.behindPosition(ctx)
	}
	found, err := t.rollbacks.foundElsewhere(ctx, t.Discovery.Source.Revision)
	if err != nil {
		return err
	}
	if found {
		return t.rollBack()
	}
	t.liveness.head = rv
	return nil
}

// followRollback ends an open watch with the loss of a rollback if another target has found a rollback of
// the same store. If there seems to be none, or if the API server does not answer, checkRollback
// asks again before the next watch: the server that was asked may have been behind.
func (t *Target) followRollback(ctx context.Context) error {
	considered := t.rollbacks.considered
	_, next := t.rollbacks.shared.Last()
	found, err := t.rollbacks.foundElsewhere(ctx, t.Discovery.Source.Revision)
	if err == nil && found {
		return t.rollBack()
	}
	t.rollbacks.considered, t.rollbacks.next = considered, next
	return ctx.Err()
}

// behindPosition decides what an answer from before the cursor means: the storage was
// restored from a copy, or the answer was stale. A consistent list is a quorum
// read, so a server that merely lags should not give such an answer; but taking
// one for a rollback by mistake would compare every object and start an epoch. A
// second connection is asked before it is believed. It returns the loss of a rollback, or another error.
func (t *Target) behindPosition(ctx context.Context) error {
	rv, err := t.Discovery.Source.RevisionElsewhere(ctx)
	if err != nil {
		return err
	}
	if known := t.newestKnown(); rv >= known {
		return fmt.Errorf("%w (revision %d)", errBehind, known)
	}
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	for !t.rollbacks.shared.Add(t.Name, t.rollbacks.considered, t.Discovery.Source.Revision) {
		found, err := t.rollbacks.foundElsewhere(ctx, t.Discovery.Source.Revision)
		if err != nil {
			return err
		}
		if found {
			break // the other targets know of it
		}
	}
	return t.rollBack()
}

// newestKnown is the newest revision that the store is known to have had. An API server that has lost
// history names one that the target has not reached yet.
func (t *Target) newestKnown() uint64 {
	known := max(t.position.rv, t.position.logged, t.loop.first().began(), t.refusals.oldest)
	if l := t.loop.loss(); l != nil {
		known = max(known, l.oldest)
	}
	return known
}

// rollBack notes that etcd was restored to an older state: revisions before and after
// are of two histories.
func (t *Target) rollBack() error {
	t.rollbacks.pass() // what follows is read after all of them
	t.Writer.Epoch++
	t.Status.Epoch.Store(t.Writer.Epoch)
	t.Logger.Warn("etcd was restored to an older state; reconciling", "resource_version", t.position.rv, "epoch", t.Writer.Epoch,
		"next", "if no administrator restored etcd, check its members", "runbook", display.GapRunbook(reasonRollback))
	l := &loss{reason: reasonRollback, from: t.position.rv}
	if was := t.loop.loss(); was != nil { // that gap is not declared yet
		l.from, l.unreadable = was.from, was.unreadable
	}
	t.liveness.progress, t.refusals = listwatch.Progress{}, refusals{}
	t.position.logged, t.Audits.head = 0, 0
	clear(t.position.ended) // revisions of another history
	t.Coverage.Forget()
	t.Index.ForgetSkipped()
	return lossError{l}
}

// A restore of etcd need not lower its revision. The procedure that etcd documents for
// Kubernetes (etcdutl snapshot restore --bump-revision --mark-compacted) raises the
// revision of the store, and the restored objects keep the older revisions that they had
// in the backup. The head of the store proves nothing then. The objects do: in one
// history the revision of an object only grows, and a name has one object at a time.

// checkHistory returns the loss of a rollback if the objects that were noted of a list at revision
// at prove a rollback. Etcd itself must confirm one of them: lists come from the watch
// cache of an API server, and a list of one name at an exact revision does not.
func (t *Target) checkHistory(ctx context.Context, c *recovery.Contradictions, at uint64) error {
	for _, d := range c.Older {
		proven, err := t.Objects.isOlder(ctx, d, at)
		if err != nil {
			return err
		}
		if proven {
			return t.rolledBackAt(ctx, d)
		}
	}
	for _, d := range c.Returned {
		if _, err := t.checkReturned(ctx, d, at, at); err != nil {
			return err
		}
	}
	return nil
}

// rolledBackAt notes the rollback that an object proves, if it is one of this cluster.
func (t *Target) rolledBackAt(ctx context.Context, d listwatch.Listed) error {
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	known := uint64(0)
	if e := t.Index.Get(d.Namespace, d.Name); e != nil {
		known = t.Index.Newest(e)
	}
	t.Logger.Warn("object older than announced; assuming an etcd rollback",
		"namespace", d.Namespace, "name", d.Name, "uid", d.UID, "resource_version", d.RV, "announced_resource_version", known)
	return t.rollBack()
}

// checkReturned returns the loss of a rollback if etcd has an object that the log says was deleted until revision at, or
// that it has in a later state: one that has entered, which no list had to hold before, or a listed one. Etcd is
// asked about a revision, now if it is 0. Gone: it does not have the object either. A uid is never used again.
func (t *Target) checkReturned(ctx context.Context, d listwatch.Listed, at, asked uint64) (gone bool, err error) {
	if deleted, err := t.Writer.SawLater(ctx, idOf(d), d.RV, at); !deleted || err != nil {
		return false, err
	}
	o, there, _, err := recovery.Confirm(ctx, t.Discovery.Source, d, asked)
	if err != nil || !there || o.UID != d.UID { // the watch cache that listed it is wrong
		return true, err
	}
	return false, t.rolledBackAt(ctx, d)
}
