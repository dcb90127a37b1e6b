package target

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
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
	if deleted, err := t.Writer.SawLater(ctx, d, at); !deleted || err != nil {
		return false, err
	}
	o, there, _, err := recovery.Confirm(ctx, t.Discovery.Source, d, asked)
	if err != nil || !there || o.UID != d.UID { // the watch cache that listed it is wrong
		return true, err
	}
	return false, t.rolledBackAt(ctx, d)
}
