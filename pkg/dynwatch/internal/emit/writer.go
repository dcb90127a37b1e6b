// Package emit writes the index and the log of a target: the events of objects with their ids,
// ordinals and members, the change filters, control events, and batches of them. It is the only writer of
// both, but for the restore at a start. It decides nothing: the loop of a target says what has
// happened to an object.
package emit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// A batch is flushed when it reaches one of these. Lists are appended in batches; a
// live event waits for nothing but those that have arrived with it.
const (
	batchEvents = 64
	BatchBytes  = 256 << 10
)

// batch has events, or objects to forget.
type batch struct {
	events, forgotten []event.Event
	size              int
}

// ErrLog says that the log did not take an event. The loop ends: the index and the log can
// differ from then on.
var ErrLog = errors.New("append to the journal")

// Meter counts what a Writer does.
type Meter interface {
	// Stored has the number of objects in the index.
	Stored(objects int)
	// Unpaired counts a modified event whose changes are not known. It returns true for the
	// first one.
	Unpaired() bool
}

// Options are what a Writer keeps as it is.
type Options struct {
	// Append appends events to the log.
	Append func(ctx context.Context, events []event.Event) error
	// Forget has the log forget objects.
	Forget func(ctx context.Context, objects []event.Event) error
	// Log has the last events of objects.
	Log    journal.Log
	Meter  Meter
	Logger *slog.Logger
	// Owners finds the controllers of controllers, nil if no API server may be asked.
	Owners          *OwnerFinder
	Cluster, Target string
	// Namespace is that of the target, empty for all.
	Namespace string
	// Wanted is the resource of the target until it is resolved.
	Wanted schema.GroupVersionResource
	Index  *index.Index
}

// Writer writes events. All but Shape and Reshape belongs to the goroutine of the target.
type Writer struct {
	Options
	// Resolved is the resource as it was served last.
	Resolved catalog.Resolved
	// Epoch counts rollbacks of the API server's storage.
	Epoch   uint64
	pending batch
	// shape is what becomes of the objects, nil for nothing. It may be another one at
	// any time, for what is read from then on.
	shape atomic.Pointer[frame.Shape]
	// content is what events contain; as for shape.
	content atomic.Pointer[Content]
}

// New makes a Writer. Call Reshape before it is used.
func New(o Options) *Writer { return &Writer{Options: o} }

// Reshape replaces the content of events, of objects that are read from now on, without a
// break in the watch. It may be called at any time.
func (w *Writer) Reshape(c Content, redactor *frame.Redactor) {
	w.shape.Store(frame.NewShape(c.ShapeOptions, redactor))
	w.content.Store(&c)
}

// Shape is the shape of objects now. It may be called at any time.
func (w *Writer) Shape() *frame.Shape { return w.shape.Load() }

// Pending reports whether events wait for a flush.
func (w *Writer) Pending() bool { return len(w.pending.events)+len(w.pending.forgotten) > 0 }

// emit adds an event to the batch and flushes the batch when it is full.
func (w *Writer) emit(ctx context.Context, e event.Event) error {
	if len(w.pending.forgotten) > 0 {
		if err := w.Flush(ctx); err != nil {
			return err
		}
	}
	w.pending.events = append(w.pending.events, e)
	w.pending.size += e.Size()
	if len(w.pending.events) >= batchEvents || w.pending.size >= BatchBytes {
		return w.Flush(ctx)
	}
	return nil
}

// WriteForgotten has index and log forget the object of an entry, without an event.
func (w *Writer) WriteForgotten(ctx context.Context, e *index.Entry) error {
	if len(w.pending.events) > 0 {
		if err := w.Flush(ctx); err != nil {
			return err
		}
	}
	of := w.Event("", w.Index.ID(e), false)
	of.ResourceVersion = e.RV
	w.Index.Remove(e)
	w.pending.forgotten = append(w.pending.forgotten, of)
	if len(w.pending.forgotten) >= batchEvents {
		return w.Flush(ctx)
	}
	return nil
}

// Flush writes the batch to the log and blocks while the log is full.
func (w *Writer) Flush(ctx context.Context) (err error) {
	switch {
	case len(w.pending.events) > 0:
		err = w.Append(ctx, w.pending.events)
	case len(w.pending.forgotten) > 0:
		err = w.Forget(ctx, w.pending.forgotten)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	clear(w.pending.events) // do not keep the bodies alive
	w.pending = batch{events: w.pending.events[:0]}
	w.Meter.Stored(w.Index.Len())
	return nil
}

// Event fills in what all events of an object have in common.
func (w *Writer) Event(op event.Op, of index.ID, replay bool) event.Event {
	ev := w.Record(op)
	ev.Namespace, ev.Name, ev.UID, ev.Replay = of.Namespace, of.Name, of.UID, replay
	return ev
}

// IDOf is the identity of an object.
func IDOf(o *frame.Object) index.ID {
	return index.ID{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// Record fills in what all events of the target have in common.
func (w *Writer) Record(op event.Op) event.Event {
	gvr := w.Resolved.GVR
	if gvr.Resource == "" { // of a resource that was never seen
		gvr = w.Wanted
	}
	return event.Event{
		Op: op, Time: time.Now(), Cluster: w.Cluster, Target: w.Target,
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: w.Resolved.Kind,
		Epoch: w.Epoch,
	}
}

// EmitBound appends the beginning or the end of a snapshot. Everything before it is in
// the log when it is appended, and it is there when EmitBound returns: a consumer goes by
// the order.
func (w *Writer) EmitBound(ctx context.Context, op event.Op, run, rv uint64, replay bool) error {
	if err := w.Flush(ctx); err != nil {
		return err
	}
	ev := w.Record(op)
	ev.SetBound(op, run, rv)
	ev.Replay = replay
	return errors.Join(w.emit(ctx, ev), w.Flush(ctx))
}

// EmitState says how the target is doing.
func (w *Writer) EmitState(ctx context.Context, state, reason string, rv uint64) error {
	ev := w.Record(event.State)
	ev.ID, ev.ResourceVersion, ev.Epoch = form.StateID(ev.Target, ev.Time), rv, 0
	ev.Data = form.StateData(state, display.Reason(reason))
	return w.emit(ctx, ev)
}

// EmitGap names the range (from, to] in which revisions may be missing.
func (w *Writer) EmitGap(ctx context.Context, g event.GapInfo) error {
	ev := w.Record(event.Gap)
	ev.ID, ev.ResourceVersion = form.GapID(ev.Target, g.From, g.To, w.Epoch), g.To
	ev.Gap, ev.Replay = &g, true
	return w.emit(ctx, ev)
}

// Last returns the last event of an object of the same UID, if it waits for a flush or the log
// keeps it. Its Data is valid until the next flush.
func (w *Writer) Last(ctx context.Context, of *event.Event) (event.Event, bool, error) {
	for i := range slices.Backward(w.pending.events) {
		if p := &w.pending.events[i]; !p.Op.Control() && p.Name == of.Name && p.Namespace == of.Namespace {
			return *p, p.UID == of.UID, nil
		}
	}
	if slices.ContainsFunc(w.pending.forgotten, func(f event.Event) bool { return f.Name == of.Name && f.Namespace == of.Namespace }) {
		return event.Event{}, false, nil
	}
	last, ok, err := w.Log.Last(ctx, of)
	if err != nil {
		return last, false, fmt.Errorf("%w: read an object's last event: %w", ErrLog, err)
	}
	return last, ok && last.UID == of.UID, nil
}

// LastObject is the entry's object in its last event, nil if the log does not hold it.
func (w *Writer) LastObject(ctx context.Context, e *index.Entry) (*frame.Object, error) {
	of := w.Event(event.Left, w.Index.ID(e), false)
	last, ok, err := w.Last(ctx, &of)
	object := last.Object()
	if err != nil || !ok || object == nil {
		return nil, err
	}
	return &frame.Object{
		Namespace: of.Namespace, Name: of.Name, UID: of.UID, ResourceVersion: e.RV,
		Data: w.fromLog(of.Namespace, of.Name, object), Owner: w.controllerIn(&last),
	}, nil
}

// SawLater reports whether the log says that an object, listed with a state of revision rv, was deleted at a
// revision up to at, or that it, or another object of its name, was there later than in that state. After a restart the log
// may be ahead of a list. If it was a list that lacked the object, that list may have been wrong: then
// etcd was not restored, but what follows needs ids of a new epoch all the same, as consumers have seen
// these.
func (w *Writer) SawLater(ctx context.Context, id index.ID, rv, at uint64) (bool, error) {
	of := w.Event(event.Deleted, id, false)
	last, same, err := w.Last(ctx, &of)
	if err != nil || last.UID == "" || last.ResourceVersion > at || last.Epoch != w.Epoch {
		return false, err
	}
	state := last.ResourceVersion
	if last.Op == event.Deleted || last.Op == event.Left && last.Object() == nil {
		state = last.PrevResourceVersion // the revision is not that of a state
	}
	return same && last.Op == event.Deleted || state > rv, nil
}

// SameContent reports whether an object at the revision of the entry's last event has its content: after
// a rollback, the same revision can be another state.
func (w *Writer) SameContent(ctx context.Context, e *index.Entry, o *frame.Object) (bool, error) {
	of := w.Event(event.Modified, w.Index.ID(e), true)
	last, ok, err := w.Last(ctx, &of)
	of.Data = form.CloseData(o.Data)
	return ok && bytes.Equal(last.Object(), of.Object()), err
}

// LeftAt is the cause of the object's last event if that says that it has left the selection, 0
// otherwise. Nothing else knows of such an object: the index holds what is selected.
func (w *Writer) LeftAt(ctx context.Context, id index.ID) (cause uint64, err error) {
	of := w.Event(event.Entered, id, true)
	last, ok, err := w.Last(ctx, &of)
	if err != nil || !ok || last.Op != event.Left {
		return 0, err
	}
	return form.SelectionCause(last.ID), nil
}
