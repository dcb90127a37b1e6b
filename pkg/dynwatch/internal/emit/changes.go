package emit

import (
	"context"

	"github.com/informd/informd/internal/change"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
)

// A new state of an object is compared with the object in the event before, the one that
// PrevResourceVersion of its event names, which is in the log. So whoever applies the patches in
// order has the objects of the stream, whatever came between: a restart, a gap, a change that the
// filters held back, or an edit of what goes into events.

// Content is what the events of a target contain. It is comparable. No part of it needs
// another watch.
type Content struct {
	frame.ShapeOptions
	// Changes is what modified events have beside the object.
	Changes Changes
	// Filters are the change filters, nil for none.
	Filters *Filters
}

// Changes says what a modified event has beside the object of how that has changed: the paths,
// a patch, the object in the event before.
type Changes struct{ Changed, Patch, OldObject bool }

// comparison is a new state of an object beside its last event.
type comparison struct {
	// before is the object in that event, nil if it is not known or nothing is asked.
	before []byte
	// held: the change filters of the entry see no change.
	held bool
	// unchanged is as event.Event has it.
	unchanged []uint64
}

// compare compares the new state of an entry's object with the last event of it.
func (w *Writer) compare(ctx context.Context, e *index.Entry, object []byte) (c comparison, err error) {
	asked := w.content.Load()
	if asked.Filters == nil && asked.Changes == (Changes{}) {
		return c, nil
	}
	if c.before, err = w.before(ctx, e); err != nil || asked.Filters == nil {
		return c, err
	}
	before := c.before
	if uint64(e.Epoch) != w.Epoch {
		before = nil // revisions of another epoch must not stay in the index
	}
	c.held, c.unchanged = asked.Filters.compare(before, object)
	return c, nil
}

// changesSince says how the event's object has changed since the one before.
func (w *Writer) changesSince(ev *event.Event, before []byte) (members []form.Member) {
	asked := w.content.Load().Changes
	if ev.Op != event.Modified || asked == (Changes{}) {
		return nil
	}
	set, err := change.Of(before, ev.Object())
	if err != nil { // what is not known is no error: the object is there
		w.unpaired()
		return nil
	}
	if asked.OldObject {
		old := w.Shape().Again(ev.Namespace, ev.Name, before)
		members = append(members, form.Member{Name: event.MemberOld, Value: old})
	}
	if asked.Changed {
		members = append(members, form.Member{Name: event.MemberChanged, Value: set.AppendPaths(nil)})
	}
	if asked.Patch {
		members = append(members, form.Member{Name: event.MemberPatch, Value: set.AppendPatch(nil)})
	}
	return members
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
	if err != nil || !ok || last.Op.Ends() || last.ResourceVersion != e.RV || last.Epoch != uint64(e.Epoch) {
		return nil, err
	}
	return last.Object(), nil
}
