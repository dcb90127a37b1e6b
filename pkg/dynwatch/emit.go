package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
)

// A batch is flushed when it reaches one of these. Lists are appended in batches; a
// live event waits for nothing but those that have arrived with it.
const (
	batchEvents = 64
	batchBytes  = 256 << 10
)

type batch struct {
	events []event.Event
	size   int
}

// emit adds an event to the batch and flushes the batch when it is full.
func (t *target) emit(ctx context.Context, e event.Event) error {
	t.pending.events = append(t.pending.events, e)
	t.pending.size += e.Size()
	if len(t.pending.events) >= batchEvents || t.pending.size >= batchBytes {
		return t.flush(ctx)
	}
	return nil
}

// flush appends the batch to the log and blocks while there is no room, or while a
// reader of the log is to read history first.
func (t *target) flush(ctx context.Context) error {
	for rest := t.pending.events; len(rest) > 0; {
		t.status.block()
		n, err := t.awaitReaders(ctx, rest)
		if err == nil {
			err = t.options.Log.Append(ctx, rest[:n])
		}
		t.status.unblock()
		t.status.beatNow()
		if err != nil {
			return fmt.Errorf("%w: %w", errLog, err)
		}
		t.status.appended(rest[:n])
		rest = rest[n:]
	}
	clear(t.pending.events) // do not keep the bodies alive
	t.pending = batch{events: t.pending.events[:0]}
	t.status.objects.Store(uint64(t.index.Len()))
	t.status.stateBytes.Store(t.index.LastStateBytes())
	return nil
}

// announce emits op for an object that exists, and remembers it, unless a change gate
// holds it back. e is what the index holds of it under the same uid, nil if nothing.
func (t *target) announce(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool) error {
	return t.announceCaused(ctx, op, o, e, replay, o.ResourceVersion)
}

// announceCaused is announce for what has entered because of another object, the
// Namespace: cause is the revision of its change.
func (t *target) announceCaused(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool, cause uint64) error {
	if op == event.Modified && t.holdBack(e, o) {
		return nil
	}
	if e == nil {
		if t.former != nil {
			if err := t.meetFormer(ctx, o); err != nil {
				return err
			}
		}
		last, err := t.recall(ctx, op, o)
		if err != nil {
			return err
		}
		e = t.index.Put(idOf(o))
		e.RV, e.Ordinal = last.ResourceVersion, last.Ordinal
	}
	ev := t.event(op, index.ID{Namespace: t.index.Namespace(e), Name: t.index.Name(e), UID: o.UID}, replay)
	t.audits.recent.Add(ev.Namespace, ev.Name)
	ev.ResourceVersion, ev.PrevResourceVersion, ev.Ordinal = o.ResourceVersion, e.RV, e.Ordinal+1
	ev.Data = event.CloseData(o.Data)
	members, err := t.beside(ctx, &ev, e, o)
	if err != nil {
		return err
	}
	t.keepState(&ev, e)
	ev.Data = event.AddMembers(ev.Data, members...)
	var unchanged []uint64
	if op == event.Modified && o.Gates != nil && e.Epoch == t.epoch {
		unchanged = o.Gates.Unchanged(o.Hashes, t.index.Hashes(e))
	}
	ev.Gates = gatesOf(o, unchanged)
	t.index.SetHashes(e, o.Hashes)
	switch {
	case op == event.Entered:
		ev.ID = event.SelectionID(o.UID, o.ResourceVersion, op, cause, t.epoch)
	case t.epoch > 0:
		ev.ID = event.ObjectID(o.UID, o.ResourceVersion, t.epoch)
	default:
		ev.ID = o.ID
	}
	if run := t.first.run; run != 0 {
		ev.SetRun(run)
		if t.first.lost {
			e.Run = run // so that a list that begins again does not repeat it
		}
	}
	e.RV, e.Ordinal, e.Hash, e.Epoch = o.ResourceVersion, ev.Ordinal, t.index.Hash(o.Data), t.epoch
	return t.emit(ctx, ev)
}

// recall returns where an object stood when it left the selection, which it has
// entered again. It is the zero event if it never was there.
func (t *target) recall(ctx context.Context, op event.Op, o *frame.Object) (event.Event, error) {
	if op != event.Entered {
		return event.Event{}, nil
	}
	of := t.event(op, idOf(o), false)
	last, ok, err := t.lastKnown(ctx, &of)
	if !ok {
		return event.Event{}, err
	}
	return last, err
}

// end emits op, Deleted or Left, for what the index holds as e, and forgets it.
// rv is the revision of the change, or that at which it was found; o is the
// object's state then, nil if that is not known. A state after the change (one
// that left and changed on) moves the revision up to its own.
func (t *target) end(ctx context.Context, op event.Op, e *index.Entry, o *frame.Object, rv uint64, replay bool) error {
	ev := t.event(op, t.index.ID(e), replay)
	t.audits.recent.Add(ev.Namespace, ev.Name)
	ev.ResourceVersion, ev.PrevResourceVersion, ev.Ordinal = rv, e.RV, e.Ordinal+1
	t.index.Remove(e)
	if op == event.Deleted && t.lost != nil && t.lost.walks() {
		t.lost.noteGone(ev.UID, rv)
	}
	switch {
	case op == event.Left:
		if o != nil {
			ev.ResourceVersion = o.ResourceVersion
			ev.Data = event.AddMembers(event.CloseData(o.Data), t.members(ctx, op, o)...)
		}
		ev.ID = event.SelectionID(ev.UID, ev.ResourceVersion, op, rv, t.epoch)
	case o == nil:
		ev.ID = event.DeletedID(ev.UID, t.epoch)
		ev.Data = event.IdentityData()
		last, ok, err := t.lastKnown(ctx, &ev)
		if err != nil {
			return err
		}
		if object := last.Object(); ok && object != nil {
			ev.Data = event.AddMembers(event.CloseDeletedData(t.fromLog(ev.Namespace, ev.Name, object), false), t.lastMembers(&last)...)
		}
	default:
		ev.ID = event.DeletedID(ev.UID, t.epoch)
		ev.Data = event.AddMembers(event.CloseDeletedData(o.Data, true), t.members(ctx, op, o)...)
	}
	return t.emit(ctx, ev)
}

// event fills in what all events of an object have in common.
func (t *target) event(op event.Op, of index.ID, replay bool) event.Event {
	ev := t.record(op)
	ev.Namespace, ev.Name, ev.UID, ev.Replay = of.Namespace, of.Name, of.UID, replay
	return ev
}

func idOf(o *frame.Object) index.ID {
	return index.ID{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// record fills in what all events of the target have in common.
func (t *target) record(op event.Op) event.Event {
	gvr := t.resolved.GVR
	if gvr.Resource == "" { // of a resource that was never seen
		gvr = schema.GroupVersionResource{Group: t.spec.group, Version: t.spec.version, Resource: t.spec.resource}
	}
	return event.Event{
		Op: op, Time: time.Now(), Cluster: t.options.Cluster, Target: t.name,
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: t.resolved.Kind,
		Epoch: t.epoch,
	}
}

// emitBound appends the beginning or the end of a snapshot. Everything before it is in
// the log when it is appended, and it is there when emitBound returns: a consumer goes by
// the order.
func (t *target) emitBound(ctx context.Context, op event.Op, run, rv uint64, replay bool) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	ev := t.record(op)
	ev.SetBound(op, run, rv)
	ev.Replay = replay
	return errors.Join(t.emit(ctx, ev), t.flush(ctx))
}

// emitState says how the target is doing.
func (t *target) emitState(ctx context.Context, state State, reason string) error {
	ev := t.record(event.State)
	ev.ID, ev.ResourceVersion, ev.Epoch = event.StateID(ev.Target, ev.Time), t.cursor, 0
	ev.Data = event.StateData(string(state), display.Reason(reason))
	return t.emit(ctx, ev)
}

// emitGap names the range (from, to] in which revisions may be missing.
func (t *target) emitGap(ctx context.Context, g event.GapInfo) error {
	ev := t.record(event.Gap)
	ev.ID, ev.ResourceVersion = event.GapID(ev.Target, g.From, g.To, t.epoch), g.To
	ev.Gap, ev.Replay = &g, true
	return t.emit(ctx, ev)
}
