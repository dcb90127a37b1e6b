package target

import (
	"context"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// A resource can return with the objects that were announced as deleted when it was
// removed: the conclusion was wrong, or etcd was restored. Events of such an object would
// have ids that a consumer has seen, and the consumer would drop them. So the target
// remembers those objects, and begins a new epoch with the first one that returns: ids of
// an epoch end in its number.

// remember notes all known objects before they are announced as deleted at revision rv.
func (t *Target) remember(rv uint64) {
	t.former = recovery.NewDeleted()
	for e := range t.Index.All() {
		t.former.Add(t.Index.UID(e), rv)
	}
	if t.former.Count() == 0 {
		t.former = nil
	}
}

// rememberEnded is remember after a restart: the log has the deletions. It skips those of
// earlier epochs, whose ids cannot come again.
func (t *Target) rememberEnded(ends endings) {
	if t.FirstOp != event.Added {
		return
	}
	f := recovery.NewDeleted()
	for _, e := range ends {
		if e.Deleted != "" && e.Epoch == t.Epoch {
			f.Add(e.Deleted, e.RV)
		}
	}
	if f.Count() > 0 {
		t.former = f
	}
}

// forgetFormer forgets the objects after a first list that held none of them. A target
// that selects or filters can meet them later.
func (t *Target) forgetFormer() {
	if t.Coverage.Filter == nil && !t.Spec.Selects() {
		t.former = nil
	}
}

// meetFormer begins a new epoch if an object is one of the former ones.
func (t *Target) meetFormer(ctx context.Context, o *frame.Object) error {
	if !t.former.Has(o.UID) {
		return nil
	}
	to := o.ResourceVersion
	if now, err := t.Source.Revision(ctx); err == nil {
		to = max(to, now)
	}
	gap := event.GapInfo{From: t.former.RV, To: to, Reason: reasonUnserved, Recovered: event.RecoveredState}
	t.former = nil
	t.Epoch++
	t.Status.Epoch.Store(t.Epoch)
	t.Logger.Warn("deleted objects returned; starting an epoch and a gap",
		"namespace", o.Namespace, "name", o.Name, "epoch", t.Epoch, "from", gap.From, "to", gap.To,
		"runbook", display.GapRunbook(gap.Reason))
	return t.EmitGap(ctx, gap)
}
