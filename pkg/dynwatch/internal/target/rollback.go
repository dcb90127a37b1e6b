package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
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
