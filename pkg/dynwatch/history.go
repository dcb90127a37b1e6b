package dynwatch

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// A restore of etcd need not lower its revision. The procedure that etcd documents for
// Kubernetes (etcdutl snapshot restore --bump-revision --mark-compacted) raises the
// revision of the store, and the restored objects keep the older revisions that they had
// in the backup. The head of the store proves nothing then. The objects do: in one
// history the revision of an object only grows, and a name has one object at a time.

// errRolledBack: an answer of the API server cannot be of the history that was announced.
// The target has noted the rollback, and a full reconcile follows.
var errRolledBack = errors.New("etcd was restored to an older state")

// maxContradictions bounds the listed objects that are kept of one list to confirm a
// rollback. One is enough; the others stand in for objects that change meanwhile.
const maxContradictions = 8

// contradictions are objects of one list that may prove a rollback. The revision of the
// list is known at its end only.
type contradictions struct {
	// older are listed at a revision that the index is past of.
	older []listwatch.Listed
	// returned are listed at a revision from before the history was lost, and not in
	// the index.
	returned []listwatch.Listed
}

// note keeps a listed object if a list that is new enough would prove a rollback by it.
func (c *contradictions) note(x *index.Index, e *index.Entry, d listwatch.Listed) {
	if len(c.older) < maxContradictions && x.Contradicts(e, d.UID, d.RV, math.MaxUint64) {
		c.older = append(c.older, d)
	}
}

// noteReturned keeps a listed object that the index lacks and should have.
func (t *target) noteReturned(c *contradictions, e *index.Entry, d listwatch.Listed) {
	switch {
	case e != nil || t.lost == nil || !t.lost.walks():
	case t.lost.gone.has(d.UID):
		c.returned = slices.Insert(c.returned, 0, d) // this one is proof
		c.returned = c.returned[:min(len(c.returned), maxContradictions)]
	case len(c.returned) < maxContradictions && d.RV <= t.lost.from &&
		t.spec.namespaces.Selector == "" && t.dropped.objects == 0 && len(t.dropped.doubtful) == 0:
		c.returned = append(c.returned, d)
	}
}

// checkHistory returns errRolledBack if the objects that were noted of a list at revision
// at prove a rollback. Etcd itself must confirm one of them: lists come from the watch
// cache of an API server, and a list of one name at an exact revision does not.
func (t *target) checkHistory(ctx context.Context, c *contradictions, at uint64) error {
	for _, d := range c.older {
		proven, err := t.isOlder(ctx, d, at)
		if err != nil {
			return err
		}
		if proven {
			return t.rolledBackAt(ctx, d)
		}
	}
	for _, d := range c.returned {
		proven, err := t.hasReturned(ctx, d, at)
		if err != nil {
			return err
		}
		if proven {
			return t.rolledBackAt(ctx, d)
		}
	}
	return nil
}

// checkRead returns errRolledBack if an object that etcd has shown at the cursor proves a
// rollback. The index holds e under its name, nil if nothing.
func (t *target) checkRead(ctx context.Context, e *index.Entry, d listwatch.Listed) error {
	proven := t.index.Contradicts(e, d.UID, d.RV, t.cursor)
	if e == nil {
		var err error
		if proven, err = t.sawDeleted(ctx, d, t.cursor); err != nil {
			return err
		}
	}
	if !proven {
		return nil
	}
	return t.rolledBackAt(ctx, d)
}

// rolledBackAt notes the rollback that an object proves, if it is one of this cluster.
func (t *target) rolledBackAt(ctx context.Context, d listwatch.Listed) error {
	if err := t.clients.Identity.Check(ctx); err != nil {
		return err
	}
	known := uint64(0)
	if e := t.index.Get(d.Namespace, d.Name); e != nil {
		known = t.index.Newest(e)
	}
	t.logger.Warn("object older than announced; assuming an etcd rollback",
		"namespace", d.Namespace, "name", d.Name, "uid", d.UID, "resource_version", d.RV, "announced_resource_version", known)
	t.rollBack()
	return errRolledBack
}

// isOlder reports whether etcd shows the object of a list at revision at in a state that
// contradicts the index.
func (t *target) isOlder(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	if !t.index.Contradicts(t.index.Get(d.Namespace, d.Name), d.UID, d.RV, at) {
		return false, nil
	}
	o, there, err := t.source.ObjectAt(ctx, d.Namespace, d.Name, at)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		o, there, at, err = t.source.Look(ctx, d.Namespace, d.Name, 0)
	}
	if bad, ok := errors.AsType[*frame.Malformed](err); ok {
		o.UID, o.ResourceVersion, there, err = bad.UID, bad.ResourceVersion, true, nil
	}
	if err != nil {
		return false, err
	}
	proven := there && t.index.Contradicts(t.index.Get(d.Namespace, d.Name), o.UID, o.ResourceVersion, at)
	if !proven {
		t.convict(d, &o, there, at)
	}
	return proven, nil
}

// hasReturned reports whether an object that the index lacks was deleted by what was
// announced, and is back in a list at revision at. A uid is never used again. Etcd itself
// must show it there. It may also say that the object existed where the known history ends:
// then the watch left it out, and nothing is proven.
func (t *target) hasReturned(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	if there, err := t.existsAt(ctx, d, at); !there || err != nil {
		return false, err
	}
	if g := t.lost.gone; g.has(d.UID) && at >= g.rv {
		return true, nil
	}
	if deleted, err := t.sawDeleted(ctx, d, at); deleted || err != nil {
		return deleted, err
	}
	if d.RV > t.lost.from {
		return false, nil // it was born in what is being made up for
	}
	_, there, err := t.source.ObjectAt(ctx, d.Namespace, d.Name, t.lost.from)
	if _, bad := errors.AsType[*frame.Malformed](err); bad {
		return false, nil // it was rejected, and is in no index
	}
	if !listwatch.Expired(err) && !listwatch.Unsupported(err) {
		return err == nil && !there, err
	}
	return !t.options.LogKeeps, nil // what a log that keeps all does not have was never announced
}

// existsAt reports whether etcd has the listed object at revision at, or has it now if
// that revision is gone. If not, the watch cache that listed it is wrong.
func (t *target) existsAt(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	o, there, err := t.source.ObjectAt(ctx, d.Namespace, d.Name, at)
	if listwatch.Expired(err) || listwatch.Unsupported(err) {
		o, there, at, err = t.source.Look(ctx, d.Namespace, d.Name, 0)
	}
	if _, bad := errors.AsType[*frame.Malformed](err); bad {
		return false, nil // it is rejected
	}
	if err != nil {
		return false, err
	}
	if there = there && o.UID == d.UID; !there {
		t.convict(d, &o, there, at)
	}
	return there, nil
}

// sawDeleted reports whether the log ends with a deletion of the object, at a revision up
// to at. After a restart the log may be ahead of a list. If it was a list that lacked the
// object, that list may have been wrong: then etcd was not restored, but what follows needs
// ids of a new epoch all the same, as consumers have seen these.
func (t *target) sawDeleted(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	if err := t.Flush(ctx); err != nil {
		return false, err
	}
	of := t.Event(event.Deleted, index.ID{Namespace: d.Namespace, Name: d.Name, UID: d.UID}, false)
	last, ok, err := t.Last(ctx, &of)
	return ok && last.Op == event.Deleted && last.ResourceVersion <= at && last.Epoch == t.Epoch, err
}
