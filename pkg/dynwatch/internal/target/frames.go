package target

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
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
			return t.missedStay(ctx, id, o.ResourceVersion)
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
		return t.missedStay(ctx, id, rv)
	}
	return t.Objects.announceCaused(ctx, op, o, e, compacted, cause)
}

// missedStay follows a state of an object that is deleted by both log and etcd: it had left the selection when the
// present said that it was deleted, see endGone. A list and a gap follow, unless etcd never had the state.
func (t *Target) missedStay(ctx context.Context, id index.ID, rv uint64) error {
	_, there, err := t.Discovery.Source.MatchAt(ctx, id.Namespace, id.Name, rv)
	if there || err != nil && !listwatch.Unsupported(err) {
		return lossError{&loss{reason: reasonExpired, from: t.position.resume()}}
	}
	return nil
}
