package target

import (
	"context"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/event"
)

// meetReturned begins a new epoch if the log says that an object of the first list was deleted. A resource can
// return with the objects that were announced as deleted when it was removed: the conclusion was wrong, or etcd was
// restored. Their events would have ids that a consumer has seen, and the consumer would drop them; ids of an epoch
// end in its number.
func (t *Target) meetReturned(ctx context.Context, o *frame.Object) error {
	if t.loop.first() == nil || t.Discovery.FirstOp != event.Added {
		return nil
	}
	of := t.Writer.Event(event.Deleted, emit.IDOf(o), false)
	last, same, err := t.Writer.Last(ctx, &of)
	if err != nil || !same || last.Op != event.Deleted || last.Epoch != t.Writer.Epoch {
		return err
	}
	to := o.ResourceVersion
	if now, err := t.Discovery.Source.Revision(ctx); err == nil {
		to = max(to, now)
	}
	gap := event.GapInfo{From: last.ResourceVersion, To: to, Reason: reasonUnserved, Recovered: event.RecoveredState}
	t.Writer.Epoch++
	t.Status.Epoch.Store(t.Writer.Epoch)
	t.Logger.Warn("deleted objects returned; starting an epoch and a gap",
		"namespace", o.Namespace, "name", o.Name, "epoch", t.Writer.Epoch, "from", gap.From, "to", gap.To,
		"runbook", display.GapRunbook(gap.Reason))
	return t.Writer.EmitGap(ctx, gap)
}
