package emit

import (
	"context"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
)

// Announcement says what has happened to an object that exists.
type Announcement struct {
	Op     event.Op
	Object *frame.Object
	// Entry is what the index holds of the object under the same uid, nil if nothing.
	Entry  *index.Entry
	Replay bool
	// Cause is the revision of the change, of the object or of its Namespace.
	Cause uint64
	// Run is that of a snapshot, 0 without one. Round, unless it is 0, is what the index notes, so that a list that
	// begins again does not repeat the object.
	Run   uint64
	Round uint32
}

// Write emits an event for an object that exists, and remembers it. If the change filters of the
// entry hold it back, it does neither, and returns true.
func (w *Writer) Write(ctx context.Context, a Announcement) (held bool, err error) {
	op, o, e := a.Op, a.Object, a.Entry
	if e == nil {
		last, err := w.recall(ctx, op, o)
		if err != nil {
			return false, err
		}
		e = w.Index.Put(IDOf(o))
		e.RV, e.Ordinal = last.ResourceVersion, last.Ordinal
	}
	ev := w.Event(op, index.ID{Namespace: w.Index.Namespace(e), Name: w.Index.Name(e), UID: o.UID}, a.Replay)
	ev.ResourceVersion, ev.PrevResourceVersion, ev.Ordinal = o.ResourceVersion, e.RV, e.Ordinal+1
	ev.Data = form.CloseData(o.Data)
	var c comparison
	if op == event.Modified {
		if c, err = w.compare(ctx, e, ev.Object()); err != nil {
			return false, err
		}
		if c.held {
			return true, nil
		}
	}
	ev.Unchanged = c.unchanged
	ev.Data = form.AddMembers(ev.Data, append(w.changesSince(&ev, c.before), w.members(ctx, op, o)...)...)
	switch {
	case op == event.Entered:
		ev.ID = form.SelectionID(o.UID, o.ResourceVersion, op, a.Cause, w.Epoch)
	case w.Epoch > 0:
		ev.ID = form.ObjectID(o.UID, o.ResourceVersion, w.Epoch)
	default:
		ev.ID = o.ID
	}
	if a.Run != 0 {
		ev.SetRun(a.Run)
		if a.Round != 0 {
			e.Round = a.Round
		}
	}
	w.Index.Announced(e)
	e.RV, e.Ordinal, e.Epoch = o.ResourceVersion, ev.Ordinal, uint32(w.Epoch)
	return false, w.emit(ctx, ev)
}

// recall returns where an object stood when it left the selection, which it has
// entered again. It is the zero event if it never was there.
func (w *Writer) recall(ctx context.Context, op event.Op, o *frame.Object) (event.Event, error) {
	if op != event.Entered {
		return event.Event{}, nil
	}
	of := w.Event(op, IDOf(o), false)
	last, ok, err := w.Last(ctx, &of)
	if !ok {
		return event.Event{}, err
	}
	return last, err
}

// WriteEnd emits op, Deleted or Left, for what the index holds as e, and forgets it.
// rv is the revision of the change, or that at which it was found; o is the
// object's state then, nil if that is not known. A state after the change (one
// that left and changed on) moves the revision up to its own.
func (w *Writer) WriteEnd(ctx context.Context, op event.Op, e *index.Entry, o *frame.Object, rv uint64, replay bool) error {
	ev := w.Event(op, w.Index.ID(e), replay)
	ev.ResourceVersion, ev.PrevResourceVersion, ev.Ordinal = rv, e.RV, e.Ordinal+1
	w.Index.Remove(e)
	switch {
	case op == event.Left:
		if o != nil {
			ev.ResourceVersion = o.ResourceVersion
			ev.Data = form.AddMembers(form.CloseData(o.Data), w.members(ctx, op, o)...)
		}
		ev.ID = form.SelectionID(ev.UID, ev.ResourceVersion, op, rv, w.Epoch)
	case o == nil:
		ev.ID = form.DeletedID(ev.UID, w.Epoch)
		ev.Data = form.IdentityData()
		last, ok, err := w.Last(ctx, &ev)
		if err != nil {
			return err
		}
		if object := last.Object(); ok && object != nil {
			ev.Data = form.AddMembers(form.CloseDeletedData(w.fromLog(ev.Namespace, ev.Name, object), false), w.lastMembers(&last)...)
		}
	default:
		ev.ID = form.DeletedID(ev.UID, w.Epoch)
		ev.Data = form.AddMembers(form.CloseDeletedData(o.Data, true), w.members(ctx, op, o)...)
	}
	return w.emit(ctx, ev)
}

// Repeat emits the state that was announced last of the entry's object once more, or the newer
// one that a change filter has held back. It is one more event of the object, so that the chain
// of ordinals and revisions has no gap: the revision before it is its own, or that of the event
// before.
func (w *Writer) Repeat(ctx context.Context, o *frame.Object, e *index.Entry, run uint64, round uint32) error {
	ev := w.Event(event.Snapshot, index.ID{Namespace: w.Index.Namespace(e), Name: w.Index.Name(e), UID: o.UID}, true)
	ev.ID = form.ObjectID(o.UID, o.ResourceVersion, w.Epoch)
	ev.SetRun(run)
	ev.ResourceVersion, ev.PrevResourceVersion, ev.Ordinal = o.ResourceVersion, e.RV, e.Ordinal+1
	ev.Data = form.AddMembers(form.CloseData(o.Data), w.members(ctx, ev.Op, o)...)
	w.Index.Announced(e)
	e.RV, e.Ordinal, e.Epoch, e.Round = o.ResourceVersion, ev.Ordinal, uint32(w.Epoch), round
	return w.emit(ctx, ev)
}
