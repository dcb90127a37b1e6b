package target

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/event"
)

// knownOf is what the log holds of an object's name, and the entry of the name, nil if there is none.
func (t *Target) knownOf(id index.ID) (decide.Known, *index.Entry) {
	e := t.Index.Get(id.Namespace, id.Name)
	k := t.Index.Known(e, id.UID)
	k.Past = t.position.endedAt(id.Namespace, id.Name)
	return k, e
}

// Announce emits op for an object that exists, and remembers it, unless the change filters
// hold it back. e is what the index holds of it under the same uid, nil if nothing.
func (t *Target) Announce(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool) error {
	return t.announceCaused(ctx, op, o, e, replay, o.ResourceVersion)
}

// announceCaused is announce for what has entered because of another object, the
// Namespace: cause is the revision of its change.
func (t *Target) announceCaused(ctx context.Context, op event.Op, o *frame.Object, e *index.Entry, replay bool, cause uint64) error {
	if e == nil {
		if err := t.meetReturned(ctx, o); err != nil {
			return err
		}
	}
	audited := t.loop.lostBy(reasonAudit)
	skipped := audited && e != nil && o.ResourceVersion <= t.Audits.began && t.mayHaveHeldBack(e, o.ResourceVersion)
	held, err := t.Writer.Write(ctx, emit.Announcement{
		Op: op, Object: o, Entry: e, Replay: replay, Cause: cause, Run: t.loop.first().run(), Noted: t.loop.first().repeats(),
	})
	switch {
	case held:
		t.Status.Unchanged.Add(1)
		t.noteHeldBack(e, o.ResourceVersion)
	case audited && !skipped: // by change filters of the process before this one, which this one may not have
		t.Audits.diverged(t.loop.loss(), emit.IDOf(o), o.ResourceVersion)
	}
	return err
}

// End emits op, Deleted or Left, for what the index holds as e, and forgets it.
func (t *Target) End(ctx context.Context, op event.Op, e *index.Entry, o *frame.Object, rv uint64, replay bool) error {
	if err := t.Marks.uncount(ctx, rv, t.Writer.Epoch); err != nil {
		return err
	}
	return t.Writer.WriteEnd(ctx, op, e, o, rv, replay)
}

// noteHeldBack notes that an object existed at a revision, in a state that the change filters held
// back.
func (t *Target) noteHeldBack(e *index.Entry, rv uint64) {
	t.heldBack = true
	t.Index.Skip(e, rv)
}

// mayHaveHeldBack reports whether a state that the watch has come past, newer than the
// last event, may be one that was held back.
func (t *Target) mayHaveHeldBack(e *index.Entry, rv uint64) bool {
	skipped := t.Index.Skipped(e)
	return t.heldBack && e.Epoch == t.Writer.Epoch && rv > e.RV && (rv == skipped || skipped == 0 && rv <= t.position.rv)
}

// longAppend is how long an append may take without a backlog of the watch to be expected.
const longAppend = time.Second

// append appends events to the log, and blocks while the log is full.
func (t *Target) append(ctx context.Context, events []event.Event) error {
	err := t.write(ctx, t.Log.Append, events)
	if err == nil {
		t.Status.Appended(events)
	}
	return err
}

// forget has the log forget objects, and blocks while the log is full.
func (t *Target) forget(ctx context.Context, objects []event.Event) error {
	return t.write(ctx, t.Log.Forget, objects)
}

func (t *Target) write(ctx context.Context, call func(context.Context, []event.Event) error, events []event.Event) error {
	t.Status.Block()
	err := call(ctx, events)
	if t.Status.Unblock() > longAppend {
		t.stalled = time.Now()
	}
	t.Status.Alive()
	return err
}
