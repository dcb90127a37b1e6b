package dynwatch

import (
	"cmp"
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
)

// A watch can be behind without an error. An API server whose watch cache gets nothing
// from etcd any more (etcd-io/etcd#15402, etcd-io/etcd#17529,
// kubernetes/kubernetes#123072) keeps its watches open and sends bookmarks, all at the
// revision at which its cache stopped. So each watch must reach the revision that a
// consistent read has shown. One that does not is replaced over another connection, which
// may reach another API server. If that one does not either, a consistent list is
// compared with the index, and a reconcile follows if they differ. The target is stale
// meanwhile.

// watchProgress decides what it means that the watch has not moved. It returns errStuck
// if the watch must be replaced, and errDiverged if a reconcile must follow.
func (t *target) watchProgress(ctx context.Context) error {
	p := &t.progress
	p.Tick(t.cursor, 2*t.timing.Tick)
	switch {
	case !p.Reached(t.cursor):
		if !t.bookmarked || p.Waited < t.timing.Reach<<p.Lenience {
			return nil // a watch without bookmarks is the matter of sitOut
		}
		return t.stuck(ctx)
	case t.bookmarked && p.Waited >= t.silence():
		return t.askHead(ctx)
	}
	return nil
}

// askHead asks for the revision of the store. Bookmarks at one revision mean that nothing
// happens in the store, or that the watch is stuck.
func (t *target) askHead(ctx context.Context) error {
	p := &t.progress
	head, err := t.source.Revision(ctx)
	if err != nil {
		return err
	}
	p.Waited = 0
	if head < t.cursor {
		return cmp.Or(t.doubt(ctx), errRolledBack) // the watch is of another history
	}
	switch p.Expect(t.cursor, head); {
	case p.Head == 0:
		t.status.progressNow()
	case p.Stuck > 0:
		return t.stuck(ctx)
	}
	return nil
}

// stuck replaces the watch the first time, and compares the index with a list from then on.
func (t *target) stuck(ctx context.Context) error {
	p := &t.progress
	p.Waited = 0
	p.Stuck++
	t.status.stuck.Add(1)
	if p.Stuck == 1 {
		t.logger.Warn("watch is behind; opening another connection", "resource_version", t.cursor, "head", p.Head)
		return listwatch.ErrStuck
	}
	rv, same, err := t.matchesList(ctx)
	if err != nil {
		return err
	}
	if same {
		p.Lenience = min(p.Lenience+1, listwatch.MaxLenience)
		p.Head, p.Stuck = 0, 0
		t.logger.Info("bookmarks are late; a list shows no missing event", "resource_version", t.cursor, "list_resource_version", rv)
		return nil
	}
	return t.fallBehind()
}

// fallBehind has a list replace what the watch does not bring.
func (t *target) fallBehind() error {
	t.logger.Warn("watch is behind; reconciling from a list", "resource_version", t.cursor)
	if l := t.lost; l != nil && l.Phase != recovery.Asking { // that gap is not declared yet
		l.Phase, l.Oldest, l.Absent = recovery.Reconciling, 0, nil
		return errDiverged
	}
	t.lost = &recovery.Lost{Phase: recovery.Reconciling, From: t.provenSince(), Reason: recovery.ReasonBehind}
	return errDiverged
}
