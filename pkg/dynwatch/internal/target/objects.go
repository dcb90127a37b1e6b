package target

import (
	"context"
	"log/slog"
	"math"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
)

// objects is what a target knows of its objects beside their last events in the index. It announces what happens to
// them.
type objects struct {
	// departed are the keys of objects that had left the selection before the restart. It is nil
	// once the watch is open: what is selected cannot change without it then.
	departed map[string]struct{}
	// heldBack: change filters have held back states. The log does not know which.
	heldBack bool
	// sweeps numbers the sweeps, for the marks in the index.
	sweeps uint32

	index     *index.Index
	writer    *emit.Writer
	lookups   *lookups
	discovery *discovery
	position  *position
	coverage  *selection.Coverage
	loop      *loop
	marks     *marks
	audits    *audits
	status    *status.Status
	logger    *slog.Logger
}

// knownOf is what the log holds of an object's name, and the entry of the name, nil if there is none.
func (ob *objects) knownOf(id index.ID) (decide.Known, *index.Entry) {
	e := ob.index.Get(id.Namespace, id.Name)
	k := ob.index.Known(e, id.UID)
	k.Past = ob.position.endedAt(id.Namespace, id.Name)
	return k, e
}

// Announce emits op for an object that exists, and remembers it, unless the change filters
// hold it back. e is what the index holds of it under the same uid, nil if nothing. Cause is the revision of the object
// or, if it has entered because of its Namespace, that of the Namespace.
func (ob *objects) Announce(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool, cause uint64) error {
	if e == nil {
		if err := ob.meetReturned(ctx, o); err != nil {
			return err
		}
	}
	audited := ob.loop.lostBy(reasonAudit)
	skipped := audited && e != nil && o.ResourceVersion <= ob.audits.began && ob.mayHaveHeldBack(e, o.ResourceVersion)
	held, err := ob.writer.Write(ctx, emit.Announcement{
		Op: op, Object: o, Entry: e, Replay: replay, Cause: cause, Run: ob.loop.first().run(), Round: ob.loop.first().round(),
	})
	switch {
	case held:
		ob.status.Unchanged.Add(1)
		ob.heldBack = true
		ob.index.Skip(e, o.ResourceVersion)
	case audited && !skipped: // by change filters of the process before this one, which this one may not have
		ob.audits.diverged(ob.loop.loss(), emit.IDOf(o), o.ResourceVersion)
	}
	return err
}

// End emits op, Deleted or Left, for what the index holds as e, and forgets it.
func (ob *objects) End(ctx context.Context, op event.Op, e *index.Entry, o *frame.Object, rv uint64, replay bool) error {
	if err := ob.marks.uncount(ctx, rv, ob.writer.Epoch); err != nil {
		return err
	}
	return ob.writer.WriteEnd(ctx, op, e, o, rv, replay)
}

// mayHaveHeldBack reports whether a state that the watch has come past, newer than the
// last event, may be one that was held back.
func (ob *objects) mayHaveHeldBack(e *index.Entry, rv uint64) bool {
	skipped := ob.index.Skipped(e)
	return ob.heldBack && uint64(e.Epoch) == ob.writer.Epoch && rv > e.RV && (rv == skipped || skipped == 0 && rv <= ob.position.rv)
}

// meetReturned begins a new epoch if the log says that an object of the first list was deleted. A resource can
// return with the objects that were announced as deleted when it was removed: the conclusion was wrong, or etcd was
// restored. Their events would have ids that a consumer has seen, and the consumer would drop them; ids of an epoch
// end in its number.
func (ob *objects) meetReturned(ctx context.Context, o *frame.Object) error {
	if ob.loop.first() == nil || ob.discovery.FirstOp != event.Added {
		return nil
	}
	of := ob.writer.Event(event.Deleted, emit.IDOf(o), false)
	last, same, err := ob.writer.Last(ctx, &of)
	if err != nil || !same || last.Op != event.Deleted || last.Epoch != ob.writer.Epoch {
		return err
	}
	to := o.ResourceVersion
	if now, err := ob.discovery.Source.Revision(ctx); err == nil {
		to = max(to, now)
	}
	gap := event.GapInfo{From: last.ResourceVersion, To: to, Reason: reasonUnserved, Recovered: event.RecoveredState}
	ob.writer.Epoch++
	ob.status.Epoch.Store(ob.writer.Epoch)
	ob.logger.Warn("deleted objects returned; starting an epoch and a gap",
		"namespace", o.Namespace, "name", o.Name, "epoch", ob.writer.Epoch, "from", gap.From, "to", gap.To,
		"runbook", display.GapRunbook(gap.Reason))
	return ob.writer.EmitGap(ctx, gap)
}

// mayReturn reports whether a listed object had left before the restart. An edit of the config, or
// labels of its Namespace, may have selected it since, without a change of the object.
func (ob *objects) mayReturn(namespace, name string) bool {
	if len(ob.departed) == 0 {
		return false
	}
	_, left := ob.departed[index.Key(namespace, name)]
	return left
}

// inLog are the namespaces of which the index has objects.
func (ob *objects) inLog() map[string]struct{} {
	names := make(map[string]struct{})
	for e := range ob.index.All() {
		names[ob.index.Namespace(e)] = struct{}{}
	}
	return names
}

// isOlder reports whether etcd shows the object of a list at revision at in a state that
// contradicts the index.
func (ob *objects) isOlder(ctx context.Context, d listwatch.Listed, at uint64) (bool, error) {
	if !ob.index.Known(ob.index.Get(d.Namespace, d.Name), d.UID).Contradicts(d.RV, at) {
		return false, nil
	}
	o, there, now, err := recovery.Confirm(ctx, ob.discovery.Source, d, at)
	if err != nil {
		return false, err
	}
	e := ob.index.Get(d.Namespace, d.Name)
	return there && ob.index.Known(e, o.UID).Contradicts(o.ResourceVersion, now), nil
}

func idOf(d listwatch.Listed) index.ID {
	return index.ID{Namespace: d.Namespace, Name: d.Name, UID: d.UID}
}

// noteListed keeps a listed object that may prove a rollback.
func (ob *objects) noteListed(ctx context.Context, c *recovery.Contradictions, k decide.Known, d listwatch.Listed) error {
	c.Note(k, d)
	if l := ob.loop.loss(); k.Object != decide.Unknown || l == nil || !l.walks() && l.reason != reasonAudit {
		return nil
	}
	later, err := ob.writer.SawLater(ctx, idOf(d), d.RV, math.MaxUint64)
	if later {
		c.NoteReturned(d)
	}
	return err
}

func (ob *objects) onFrame(k decide.Known, s decide.Seen) decide.Decision {
	selects := ob.discovery.spec.Selects()
	if s.Kind == decide.Gone {
		selects = ob.discovery.Source.Resource.Loses()
	}
	position := ob.position.rv
	if ob.position.ended[""] == position { // the watch brings again what was filtered out before its namespace matched
		position++
	}
	return decide.Decide(k, s, decide.Rules{Position: position, Selects: selects, Arrival: event.Added})
}
