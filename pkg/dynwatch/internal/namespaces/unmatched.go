package namespaces

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
)

// LeavesOut reports whether no event follows a frame: its namespace does not match, or the
// list with which the namespace began has the frame's state. It also passes everything before
// the frame.
func (t *Follower) LeavesOut(ctx context.Context, kind watch.EventType, w *frame.Watched) (bool, error) {
	if t.Coverage.Filter == nil {
		return false, nil
	}
	namespace, name, rv := w.Namespace, w.Name, w.ResourceVersion
	if w.Err != nil {
		namespace, name, rv = w.Err.Namespace, w.Err.Name, w.Err.ResourceVersion
	}
	if kind == watch.Bookmark {
		return false, t.Pass(ctx, rv)
	}
	if namespace == "" {
		return false, nil // whose it is could not be read
	}
	if err := t.Pass(ctx, max(rv, 1)-1); err != nil {
		return false, err
	}
	c := &t.Coverage
	f := selection.LeftFrame{Kind: kind, Namespace: namespace, Name: name, RV: rv}
	_, leaving := c.Leaving(namespace)
	if err := t.DeclareMissing(ctx, namespace, rv); err != nil {
		return false, err
	}
	switch {
	case !c.Filter.Wants(namespace):
		c.LeaveOut(f)
		return true, nil
	case rv <= c.ListedAt(namespace):
		return true, t.Skip(ctx, f)
	case leaving && kind != watch.Added && t.Index.Get(namespace, name) == nil:
		return true, nil // it has left already
	case w.Err == nil && w.Data == nil:
		return false, ErrReadAhead
	default:
		return false, nil
	}
}

// Pass notes that the stream has brought everything up to rv: what is left of
// namespaces that are no longer covered leaves with that.
func (t *Follower) Pass(ctx context.Context, rv uint64) error {
	left, idle := t.Coverage.Pass(rv)
	if idle {
		return nil
	}
	for namespace, d := range left {
		for _, e := range t.entriesOf(namespace) {
			if err := t.EndOutside(ctx, e, d.Until, d.Cause, false); err != nil {
				return err
			}
		}
		t.Coverage.Left(namespace, rv)
	}
	t.Marks.Soon()
	return t.Flush(ctx)
}

func (t *Follower) entriesOf(namespace string) []*index.Entry {
	var all []*index.Entry
	for e := range t.Index.All() {
		if t.Index.Namespace(e) == namespace {
			all = append(all, e)
		}
	}
	return all
}
