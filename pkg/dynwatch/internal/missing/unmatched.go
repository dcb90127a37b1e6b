package missing

import (
	"cmp"
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// endUncovered ends what a list at rv cannot hold because its namespace does not match.
func (t *Decider) endUncovered(ctx context.Context, e *index.Entry, rv uint64) error {
	if _, leaves := t.Coverage.Leaving(t.Index.Namespace(e)); leaves {
		return nil // once the watch has brought what came before
	}
	if !t.Edited() {
		return t.EndOutside(ctx, e, rv, cmp.Or(t.Coverage.At(), rv), true)
	}
	_, there, err := t.stillThere(ctx, e, rv)
	switch {
	case err == nil && !there:
		return t.End(ctx, event.Deleted, e, nil, rv, true)
	case err != nil && !listwatch.Expired(err) && !listwatch.Unsupported(err):
		return err
	}
	return t.WriteForgotten(ctx, e) // the cluster has not changed, or its state is unknown
}

// EndOutside ends an object of a namespace that does not match: it left, unless it is gone at
// revision at.
func (t *Decider) EndOutside(ctx context.Context, e *index.Entry, at, cause uint64, replay bool) error {
	o, there, err := t.stillThere(ctx, e, at)
	switch {
	case listwatch.Expired(err), listwatch.Unsupported(err):
		o = nil // nothing says that it is gone
	case err != nil:
		return err
	case !there:
		return t.End(ctx, event.Deleted, e, nil, at, true)
	}
	if o == nil {
		if o, err = t.LastObject(ctx, e); err != nil {
			return err
		}
	}
	return t.Leave(ctx, e, o, cause, replay)
}

// Leave ends what is there and no longer covered. If the target resumed behind its
// last event, the watch brings that again.
func (t *Decider) Leave(ctx context.Context, e *index.Entry, o *frame.Object, cause uint64, replay bool) error {
	if e.RV > t.Cursor {
		t.Ended[index.Key(t.Index.Namespace(e), t.Index.Name(e))] = e.RV
	}
	return t.End(ctx, event.Left, e, o, cause, replay)
}
