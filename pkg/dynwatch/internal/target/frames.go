package target

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// rejectFrame stores a frame that cannot be emitted. A deletion is emitted all the same if
// its object is known: only the last state is lost.
func (t *Target) rejectFrame(ctx context.Context, typ watch.EventType, bad *frame.Malformed) error {
	if err := t.rejections.reject(ctx, bad); err != nil || bad.UID == "" {
		return err
	}
	id := index.ID{Namespace: bad.Namespace, Name: bad.Name, UID: bad.UID}
	s := decide.Seen{Kind: kindOf(typ), RV: bad.ResourceVersion, Unreadable: true}
	k, e := t.Objects.knownOf(id)
	return errors.Join(t.act(ctx, t.Objects.onFrame(k, s), id, e, s.RV, nil), t.Writer.Flush(ctx))
}

// Apply brings one live frame through the index into the log.
func (t *Target) Apply(ctx context.Context, typ watch.EventType, o *frame.Object) error {
	id := emit.IDOf(o)
	k, e := t.Objects.knownOf(id)
	if typ == watch.Modified && e == nil { // the log may say that it was deleted
		switch gone, err := t.checkReturned(ctx, listwatch.ListedOf(o), o.ResourceVersion, 0); {
		case err != nil:
			return err
		case gone:
			return t.Objects.missedStay(ctx, id, o.ResourceVersion)
		}
	}
	d := t.Objects.onFrame(k, decide.Seen{Kind: kindOf(typ), RV: o.ResourceVersion})
	return errors.Join(t.act(ctx, d, id, e, o.ResourceVersion, o), t.Writer.Flush(ctx))
}

func kindOf(typ watch.EventType) decide.Kind {
	if typ == watch.Deleted {
		return decide.Gone
	}
	return decide.State
}

// act emits what was decided about a frame at revision rv. The index holds e under its name, nil
// if nothing; o is nil if the frame's object is unreadable.
func (t *Target) act(ctx context.Context, d decide.Decision, id index.ID, e *index.Entry, rv uint64, o *frame.Object) error {
	e, err := t.Objects.endReplaced(ctx, d, e)
	if d.Op == "" || err != nil {
		return err
	}
	left := uint64(0)
	if e == nil && t.Objects.mayReturn(id.Namespace, id.Name) {
		if left, err = t.Writer.LeftAt(ctx, id); err != nil {
			return err
		}
	}
	switch {
	case d.Op == event.Deleted && left != 0:
		return nil // a consumer does not have it any more
	case d.Op == event.Deleted:
		return t.Objects.endGone(ctx, d, id, e, rv, o)
	}
	op, compacted, err := t.lookups.ask(ctx, d, o, rv-1)
	cause := rv
	if left != 0 {
		op, cause = event.Entered, max(rv, t.Coverage.At())
	}
	gone := false
	if err == nil && op == event.Entered {
		gone, err = t.checkReturned(ctx, listwatch.ListedOf(o), rv, 0)
	}
	switch {
	case err != nil:
		return err
	case gone:
		return t.Objects.missedStay(ctx, id, rv)
	}
	return t.Objects.Announce(ctx, op, o, e, compacted, cause)
}

// Nearly all frames are new states of objects, with nothing unusual about them or the
// target. Of those that arrive together the events are gathered and appended together:
// what comes before an append and after it costs more than the event itself. Nothing
// waits for a frame that has not arrived. Everything else is handled frame by frame.

// gather adds the event of a frame to the batch, if the frame is such a one. If not, it
// returns false, and what was gathered is in the log.
func (t *Target) gather(ctx context.Context, w *frame.Watched) (bool, error) {
	o := &w.Object
	// With a selection, or a comparison under way, it matters what a single frame says.
	single := t.Coverage.Filter != nil || t.Spec.Selects() || t.Audits.running != nil
	if single || w.Err != nil || w.Kind != watch.Added && w.Kind != watch.Modified {
		return false, t.gathered(ctx)
	}
	k, e := t.Objects.knownOf(emit.IDOf(o))
	d := decide.Decide(k, decide.Seen{Kind: decide.State, RV: o.ResourceVersion}, decide.Rules{Arrival: event.Added})
	if d.Op == "" || d.Replaced || e == nil && w.Kind == watch.Modified || o.ResourceVersion < max(t.position.rv, t.position.ahead) {
		return false, t.gathered(ctx)
	}
	if err := t.Objects.Announce(ctx, d.Op, o, e, false, o.ResourceVersion); err != nil {
		return false, err
	}
	t.position.ahead = o.ResourceVersion
	return true, nil
}

// gathered appends what was gathered, and moves the cursor to it.
func (t *Target) gathered(ctx context.Context) error {
	if t.position.ahead == 0 {
		return nil
	}
	if err := t.Writer.Flush(ctx); err != nil {
		return err
	}
	ahead := t.position.ahead
	t.position.ahead = 0
	t.refusals = refusals{}
	t.liveness.progress.Event()
	t.Status.Progressed()
	t.pause.reset()
	t.position.moveTo(ahead)
	return nil
}

// longAppend is how long an append may take without a backlog of the watch to be expected.
const longAppend = time.Second

// appends are those to the log, which blocks while it is full.
type appends struct {
	log    journal.Log
	status *status.Status
	// stalled is when an append ended that took long: the watch has perhaps brought
	// more by then than was read of it.
	stalled time.Time
}

// append appends events to the log, and blocks while the log is full.
func (a *appends) append(ctx context.Context, events []event.Event) error {
	err := a.write(ctx, a.log.Append, events)
	if err == nil {
		a.status.Appended(events)
	}
	return err
}

// forget has the log forget objects, and blocks while the log is full.
func (a *appends) forget(ctx context.Context, objects []event.Event) error {
	return a.write(ctx, a.log.Forget, objects)
}

func (a *appends) write(ctx context.Context, call func(context.Context, []event.Event) error, events []event.Event) error {
	a.status.Block()
	err := call(ctx, events)
	if a.status.Unblock() > longAppend {
		a.stalled = time.Now()
	}
	a.status.Alive()
	return err
}
