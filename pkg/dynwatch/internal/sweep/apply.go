package sweep

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/missing"
	"github.com/informd/informd/pkg/event"
)

// RejectFrame stores a frame that cannot be emitted. A deletion is emitted all the same if
// its object is known: only the last state is lost.
func (t *Sweeper) RejectFrame(ctx context.Context, typ watch.EventType, bad *frame.Malformed) error {
	if err := t.Reject(ctx, bad); err != nil {
		return err
	}
	e := t.Index.Get(bad.Namespace, bad.Name)
	if e == nil || bad.ResourceVersion < e.RV {
		return nil
	}
	var err error
	if typ == watch.Deleted && t.Index.IsUID(e, bad.UID) {
		err = t.End(ctx, event.Deleted, e, nil, max(bad.ResourceVersion, e.RV+1), false)
	} else {
		err = t.EndReplaced(ctx, e, bad)
	}
	return errors.Join(err, t.Flush(ctx))
}

// Apply brings one live frame through the index into the log.
func (t *Sweeper) Apply(ctx context.Context, typ watch.EventType, o *frame.Object) error {
	if o.ResourceVersion < t.Cursor && !t.isLate(typ, o) {
		return nil
	}
	if o.ResourceVersion <= t.EndedAt(o.Namespace, o.Name) {
		return nil // the watch was resumed from before its end, see resume
	}
	return errors.Join(t.ApplyState(ctx, typ, o), t.Flush(ctx))
}

// ApplyState is apply for what the cursor may be beyond of.
func (t *Sweeper) ApplyState(ctx context.Context, typ watch.EventType, o *frame.Object) error {
	e := t.Index.Get(o.Namespace, o.Name)
	if e != nil && !t.Index.IsUID(e, o.UID) {
		if o.ResourceVersion <= e.RV {
			return nil
		}
		// The old object's end was not seen; under a name there is one at a time.
		if err := t.End(ctx, event.Deleted, e, nil, missing.ReplacedAt(e, o.ResourceVersion), true); err != nil {
			return err
		}
		e = nil
	}
	return t.applyTo(ctx, typ, o, e)
}

// applyTo is apply once it is known what the index holds of the frame's object.
func (t *Sweeper) applyTo(ctx context.Context, typ watch.EventType, o *frame.Object, e *index.Entry) error {
	switch {
	case e != nil && o.ResourceVersion <= t.Index.Newest(e) && !t.endsAtLast(typ, o, e):
		return nil // a reconcile already brought it
	case typ == watch.Deleted && e == nil:
		// Created in a gap and deleted here: it was never announced, but its deletion is part
		// of the history that can be seen.
		return t.EndUntold(ctx, o)
	case typ == watch.Deleted:
		return t.EndGone(ctx, e, o, true)
	case e == nil:
		op, err := t.ArrivalOp(ctx, o)
		if err == nil && op == event.Entered {
			err = t.CheckEntered(ctx, o, o.ResourceVersion)
		}
		if err != nil {
			return err
		}
		return t.Announce(ctx, op, o, nil, false)
	default:
		return t.Announce(ctx, event.Modified, o, e, false)
	}
}

// An API server on etcd sends the frames of a watch by ascending revision, and a deletion
// at a revision of its own. Aggregated API servers with other storage do neither: they send
// a DELETED frame with the object's last revision, and frames from before the position of
// the watch. These rules hold for both kinds of servers. They compare a frame with the
// object's own last event, and with the position only where nothing is known of the object.

// isLate reports whether a frame from before the target's position can say something new. A
// deletion of an unknown object does not: it was announced, or the object never was.
func (t *Sweeper) isLate(typ watch.EventType, o *frame.Object) bool {
	return typ != watch.Deleted || t.Index.Get(o.Namespace, o.Name) != nil
}

// endsAtLast reports whether a frame is the deletion of an entry's object at the last
// revision that is known of it. On etcd a deletion has a newer revision than any state.
func (t *Sweeper) endsAtLast(typ watch.EventType, o *frame.Object, e *index.Entry) bool {
	return typ == watch.Deleted && (o.ResourceVersion == e.RV || o.ResourceVersion == t.Index.Newest(e))
}
