package namespaces

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// Filters reports whether no event follows a frame: its namespace does not match, or a list has shown
// its state. It also passes everything before the frame.
func (t *Follower) Filters(ctx context.Context, w *frame.Watched) (bool, error) {
	c := &t.Coverage
	if c.Filter == nil {
		return false, nil
	}
	namespace, name, rv := w.Namespace, w.Name, w.ResourceVersion
	if w.Err != nil {
		namespace, name, rv = w.Err.Namespace, w.Err.Name, w.Err.ResourceVersion
	}
	if w.Kind == watch.Bookmark {
		return false, t.Pass(ctx, rv)
	}
	if namespace == "" {
		return false, nil // whose it is could not be read
	}
	if err := t.Pass(ctx, max(rv, 1)-1); err != nil {
		return false, err
	}
	filtered := c.Filters(namespace, rv)
	if c.Replayed(rv) {
		t.Marks.Soon()
	}
	_, leaves := c.Leaving(namespace)
	switch {
	case filtered:
		return true, nil
	case leaves && w.Kind != watch.Added && t.Index.Get(namespace, name) == nil:
		return true, nil // it has left already
	case w.Err == nil && w.Data == nil:
		return false, ErrReopen
	default:
		return false, nil
	}
}

// Pass notes that the stream has brought everything up to rv: what is left of
// namespaces that no longer match leaves with that.
func (t *Follower) Pass(ctx context.Context, rv uint64) error {
	left, moved := t.Coverage.Pass(rv)
	for namespace, l := range left {
		for _, e := range t.entriesOf(namespace) {
			if err := t.EndOutside(ctx, e, l.Until, l.Cause, false); err != nil {
				return err
			}
		}
		t.Coverage.Left(namespace)
	}
	if !moved {
		return nil
	}
	t.Marks.Soon()
	return t.Flush(ctx)
}
