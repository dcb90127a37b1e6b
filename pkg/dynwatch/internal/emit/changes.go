package emit

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/change"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
)

// What an event says of how its object has changed is found by comparing it with the
// object in the event before, the one that its PrevResourceVersion names. So whoever
// applies the patches in order has the objects of the stream, whatever came between:
// a restart, a gap, a change gate, or an edit of what goes into events. That object is
// in the log.

// Content is what the events of a target contain. It is comparable. No part of it needs
// another watch.
type Content struct {
	frame.ShapeOptions
	// Changes is what modified events have beside the object.
	Changes Changes
}

// Changes says what a modified event has beside the object of how that has changed: the paths,
// a patch, the object in the event before.
type Changes struct{ Paths, Patch, Old bool }

func (c Changes) any() bool { return c != Changes{} }

// beside gathers what an event has beside its object, before the index takes note of
// the event: e is still what was announced last. The event is complete but for that.
func (w *Writer) beside(ctx context.Context, ev *event.Event, e *index.Entry, o *frame.Object) ([]event.Member, error) {
	members, err := w.changesSince(ctx, ev, e)
	return append(members, w.members(ctx, ev.Op, o)...), err
}

// changesSince says how the event's object has changed since the one before.
func (w *Writer) changesSince(ctx context.Context, ev *event.Event, e *index.Entry) (members []event.Member, err error) {
	asked := *w.asked.Load()
	if ev.Op != event.Modified || !asked.any() {
		return nil, nil
	}
	before, err := w.before(ctx, e)
	if err != nil {
		return nil, err
	}
	set, err := change.Of(before, ev.Object())
	if err != nil {
		w.unpaired()
		return nil, nil //nolint:nilerr // what is not known is no error: the object is there
	}
	if asked.Old {
		old := w.Shape().Again(ev.Namespace, ev.Name, before)
		members = append(members, event.Member{Name: event.MemberOld, Value: old})
	}
	if asked.Paths {
		members = append(members, event.Member{Name: event.MemberChanged, Value: set.AppendPaths(nil)})
	}
	if asked.Patch {
		members = append(members, event.Member{Name: event.MemberPatch, Value: set.AppendPatch(nil)})
	}
	return members, nil
}

// unpaired counts an event whose object before is not known.
func (w *Writer) unpaired() {
	if w.Meter.Unpaired() {
		w.Logger.Warn("previous object unknown; event lists no changes", "next", "none: later events of this kind are counted, and not logged")
	}
}

// before is the object in the last event of the entry's, as that event has it, nil if
// it is not known.
func (w *Writer) before(ctx context.Context, e *index.Entry) ([]byte, error) {
	of := w.Event(event.Modified, w.Index.ID(e), false)
	last, ok, err := w.Last(ctx, &of)
	if err != nil || !ok || last.Op.Ends() || last.ResourceVersion != e.RV || last.Epoch != e.Epoch {
		return nil, err
	}
	return last.Object(), nil
}
