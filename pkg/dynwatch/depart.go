package dynwatch

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// leavesOut reports whether nothing is to come of a frame: its namespace is not
// covered, or the list that it began with tells what the frame does. It decides,
// too, what the stream has come past with it.
func (t *namespacer) leavesOut(ctx context.Context, kind watch.EventType, w *frame.Watched) (bool, error) {
	if t.coverage.Filter == nil {
		return false, nil
	}
	namespace, name, rv := w.Namespace, w.Name, w.ResourceVersion
	if w.Err != nil {
		namespace, name, rv = w.Err.Namespace, w.Err.Name, w.Err.ResourceVersion
	}
	if kind == watch.Bookmark {
		return false, t.pass(ctx, rv)
	}
	if namespace == "" {
		return false, nil // whose it is could not be read
	}
	if err := t.pass(ctx, max(rv, 1)-1); err != nil {
		return false, err
	}
	c := &t.coverage
	f := selection.LeftFrame{Kind: kind, Namespace: namespace, Name: name, RV: rv}
	_, leaving := c.Leaving(namespace)
	switch {
	case !c.Filter.Wants(namespace):
		c.LeaveOut(f)
		return true, nil
	case rv <= c.ListedAt(namespace):
		return true, t.skip(ctx, f)
	case leaving && kind != watch.Added && t.index.Get(namespace, name) == nil:
		return true, nil // it has left already
	case w.Err == nil && w.Data == nil:
		return false, errReadAhead
	default:
		return false, nil
	}
}

// skip passes over a state that the list is ahead of which its namespace began with.
// One that the list did not hold is not told; the first one declares that.
func (t *decider) skip(ctx context.Context, f selection.LeftFrame) error {
	c := &t.coverage
	to := c.ListedAt(f.Namespace)
	if after, skips := c.Skips(f, t.explained); skips {
		return t.declare(ctx, event.GapInfo{From: after, To: to})
	}
	return nil
}

// pass notes that the stream has brought everything up to rv: what is left of
// namespaces that are no longer covered leaves with that.
func (t *namespacer) pass(ctx context.Context, rv uint64) error {
	left, idle := t.coverage.Pass(rv)
	if idle {
		return nil
	}
	for namespace, d := range left {
		for _, e := range t.entriesOf(namespace) {
			if err := t.endOutside(ctx, e, d.Until, d.Cause, false); err != nil {
				return err
			}
		}
		t.coverage.Left(namespace, rv)
	}
	t.marks.Soon()
	return t.Flush(ctx)
}

func (t *namespacer) entriesOf(namespace string) []*index.Entry {
	var all []*index.Entry
	for e := range t.index.All() {
		if t.index.Namespace(e) == namespace {
			all = append(all, e)
		}
	}
	return all
}

// endUncovered ends what a list at rv cannot hold because its namespace is not
// covered any more.
func (t *decider) endUncovered(ctx context.Context, e *index.Entry, rv uint64) error {
	if t.lost != nil && t.lost.Reason == recovery.ReasonSelection {
		_, there, err := t.stillThere(ctx, e, rv)
		switch {
		case err == nil && !there:
			return t.end(ctx, event.Deleted, e, nil, rv, true)
		case err != nil && !listwatch.Expired(err) && !listwatch.Unsupported(err):
			return err
		}
		t.index.Remove(e) // it was not the cluster that changed, or nobody knows
		return nil
	}
	leaving, _ := t.coverage.Leaving(t.index.Namespace(e))
	return t.endOutside(ctx, e, rv, cmp.Or(leaving.Cause, rv), true)
}

// endOutside ends what is not covered any more: it left, unless it is gone at
// revision at.
func (t *decider) endOutside(ctx context.Context, e *index.Entry, at, cause uint64, replay bool) error {
	o, there, err := t.stillThere(ctx, e, at)
	switch {
	case listwatch.Expired(err), listwatch.Unsupported(err):
		o = nil // nothing says that it is gone
	case err != nil:
		return err
	case !there:
		return t.end(ctx, event.Deleted, e, nil, at, true)
	}
	if o == nil {
		if o, err = t.LastObject(ctx, e); err != nil {
			return err
		}
	}
	return t.leave(ctx, e, o, cause, replay)
}

// leave ends what is there and no longer covered. If the target resumed behind its
// last event, the watch brings that again.
func (t *decider) leave(ctx context.Context, e *index.Entry, o *frame.Object, cause uint64, replay bool) error {
	if e.RV > t.cursor {
		t.ended[index.Key(t.index.Namespace(e), t.index.Name(e))] = e.RV
	}
	return t.end(ctx, event.Left, e, o, cause, replay)
}
