package target

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

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
		proven, err := t.isOlder(ctx, d, at)
		if err != nil {
			return err
		}
		if proven {
			return t.rolledBackAt(ctx, d)
		}
	}
	for _, d := range c.Returned {
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

// isOlder reports whether etcd shows the object of a list at revision at in a state that
// contradicts the index.
func (t *Target) isOlder(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	if !t.Index.Known(t.Index.Get(d.Namespace, d.Name), d.UID).Contradicts(d.RV, at) {
		return false, nil
	}
	is, err := recovery.Confirm(ctx, t.Source, d, at)
	if err != nil {
		return false, err
	}
	e := t.Index.Get(d.Namespace, d.Name)
	return is.There && t.Index.Known(e, is.Object.UID).Contradicts(is.Object.ResourceVersion, is.At), nil
}

// hasReturned reports whether an object that the index lacks was deleted by what was
// announced, and is back in a list at revision at. A uid is never used again. Etcd itself
// must show it there. It may also say that the object existed where the known history ends:
// then the watch left it out, and nothing is proven.
func (t *Target) hasReturned(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	if there, err := t.existsAt(ctx, d, at); !there || err != nil {
		return false, err
	}
	l := t.loss()
	if l.deleted.Has(d.UID) && at >= l.deleted.RV {
		return true, nil
	}
	if deleted, err := t.sawLater(ctx, d, at); deleted || err != nil {
		return deleted, err
	}
	if d.RV > l.from {
		return false, nil // it was born in what is being made up for
	}
	_, there, err := t.Source.MatchAt(ctx, d.Namespace, d.Name, l.from)
	if _, bad := errors.AsType[*frame.Malformed](err); bad {
		return false, nil // it was rejected, and is in no index
	}
	if !listwatch.Expired(err) && !listwatch.Unsupported(err) {
		return err == nil && !there, err
	}
	if t.Spec.Namespaces.Selector != "" {
		return false, nil // its namespace may not have matched
	}
	return t.logForgets(ctx)
}

// logForgets reports whether the log does not keep the last events of objects. An object that it does
// not know may have been announced then.
func (t *Target) logForgets(ctx context.Context) (bool, error) {
	if err := t.Flush(ctx); err != nil {
		return false, err
	}
	for e := range t.Index.All() {
		of := t.Event(event.Deleted, t.Index.ID(e), false)
		_, ok, err := t.Last(ctx, &of)
		return !ok, err
	}
	return false, nil
}

// checkEntered returns the loss of a rollback if an object that enters at revision at was deleted before, or
// was newer. No list had to hold it before, as it was not selected.
func (t *Target) checkEntered(ctx context.Context, o *frame.Object, at uint64) error {
	return t.checkReturned(ctx, listwatch.ListedOf(o), at)
}

// checkListed is checkEntered for an object of a list that the watch has passed.
func (t *Target) checkListed(ctx context.Context, d listwatch.Listed) error {
	if d.RV == 0 || t.Index.Get(d.Namespace, d.Name) != nil {
		return nil
	}
	return t.checkReturned(ctx, d, t.Cursor)
}

func (t *Target) checkReturned(ctx context.Context, d listwatch.Listed, at uint64) error {
	if deleted, err := t.sawLater(ctx, d, at); !deleted || err != nil {
		return err
	}
	if there, err := t.existsAt(ctx, d, at); !there || err != nil {
		return err
	}
	return t.rolledBackAt(ctx, d)
}

// existsAt reports whether etcd has the listed object at revision at, or has it now if
// that revision is gone. If not, the watch cache that listed it is wrong.
func (t *Target) existsAt(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	is, err := recovery.Confirm(ctx, t.Source, d, at)
	if is.Bad || err != nil {
		return false, err
	}
	return is.There && is.Object.UID == d.UID, nil
}

// sawLater reports whether the log says that the object was deleted, at a revision up to at, or that
// it, or another object of its name, was there later than in the listed state. After a restart the log may be ahead of a list. If it was a list that lacked the
// object, that list may have been wrong: then etcd was not restored, but what follows needs
// ids of a new epoch all the same, as consumers have seen these.
func (t *Target) sawLater(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	of := t.Event(event.Deleted, index.ID{Namespace: d.Namespace, Name: d.Name, UID: d.UID}, false)
	last, same, err := t.Last(ctx, &of)
	if err != nil || last.UID == "" || last.ResourceVersion > at || last.Epoch != t.Epoch {
		return false, err
	}
	state := last.ResourceVersion
	if last.Op == event.Deleted || last.Op == event.Left && last.Object() == nil {
		state = last.PrevResourceVersion // the revision is not that of a state
	}
	return same && last.Op == event.Deleted || state > d.RV, nil
}

// noteListed keeps a listed object that may prove a rollback.
func (t *Target) noteListed(c *recovery.Contradictions, k decide.Known, d listwatch.Listed) {
	c.Note(k, d)
	if l := t.loss(); k.Object == decide.Unknown && l != nil && l.walks() {
		c.NoteReturned(d, l.deleted.Has(d.UID), l.from)
	}
}
