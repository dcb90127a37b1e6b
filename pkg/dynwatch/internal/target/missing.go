package target

import (
	"cmp"
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// Under a label or field selector the API server sends DELETED for an object
// that still exists and no longer matches, with the new revision over the old
// body, and ADDED for one that has begun to match. Only a look at the object by
// name, without the selector and at the right revision, tells the two apart.

// endGone emits the end of an object for which a DELETED frame came at revision rv, as decided: e is
// nil if it was never announced, and o if it cannot be emitted. If etcd has compacted the revision, the present
// tells. It can be wrong, so that the event is a replay: what is gone now may have left at rv, and etcd may have been
// restored since.
func (t *Target) endGone(ctx context.Context, d decide.Decision, id index.ID, e *index.Entry, rv uint64, o *frame.Object) error {
	unknown := e == nil
	if unknown {
		e = t.Index.Put(id)
		defer t.Index.Remove(e) // what became of it is not known
	}
	op, compacted := d.Op, false
	if d.Ask {
		now, still, err := t.lookups.stillThere(ctx, e, rv)
		compacted = listwatch.Expired(err)
		if compacted || listwatch.Unsupported(err) {
			if unknown {
				return nil
			}
			now, still, err = t.lookups.stillThereNow(ctx, e)
			if lasts(err) && !errors.Is(err, emit.ErrLog) { // what became of it cannot be read any more
				now, still, err = nil, t.lookups.mayExist(), nil
			}
			if now != nil && now.ResourceVersion != rv {
				now = nil // a later state, of which the watch has more to bring
			}
		}
		switch {
		case err != nil:
			return err
		case still:
			op, o = d.IfExists, now
		case compacted:
			o = nil
		}
	}
	if op == "" {
		return nil
	}
	return t.End(ctx, op, e, o, rv, compacted)
}

// decideAbsent is what it means that a list at revision rv lacks the entry's object.
func (t *Target) decideAbsent(e *index.Entry, rv uint64) decide.Decision {
	k := decide.Known{Object: decide.Same, RV: e.RV, Newest: t.Index.Newest(e), Restored: t.loop.rolledBack()}
	r := decide.Rules{Selects: t.lookups.mayExist(), Edited: t.loop.edited(&t.Coverage)}
	return decide.Decide(k, decide.Seen{Kind: decide.Absent, RV: rv}, r)
}

// endAbsent emits the end of an object that a list at rv did not hold.
func (t *Target) endAbsent(ctx context.Context, e *index.Entry, rv uint64) error {
	d := t.decideAbsent(e, rv)
	switch {
	case d.Op == "":
		return nil
	case !t.Coverage.Filter.Covers(t.Index.Namespace(e)):
		return t.endUncovered(ctx, e, rv)
	case !d.Ask:
		return t.End(ctx, d.Op, e, nil, rv, true)
	}
	t.Status.Alive() // a list can lack many
	now, still, err := t.lookups.stillThere(ctx, e, rv)
	if t.loop.unanswerable(err) || d.IfExists == "" && listwatch.Expired(err) {
		now, still, err = t.lookups.stillThereNow(ctx, e)
	}
	switch {
	case err != nil: // if etcd has compacted the revision, another list follows
		return err
	case still && d.IfExists == "":
		return t.Writer.WriteForgotten(ctx, e) // it was not the cluster that changed
	case still:
		return t.End(ctx, d.IfExists, e, now, rv, true)
	default:
		return t.End(ctx, d.Op, e, nil, rv, true)
	}
}

// endReplaced ends the entry if the decision is that another object has replaced it. It returns the
// entry of the observed object, nil if there is none.
func (t *Target) endReplaced(ctx context.Context, d decide.Decision, e *index.Entry) (*index.Entry, error) {
	if !d.Replaced {
		return e, nil
	}
	return nil, t.End(ctx, event.Deleted, e, nil, d.ReplacedAt, true)
}

// endUncovered ends what a list at rv cannot hold because its namespace does not match.
func (t *Target) endUncovered(ctx context.Context, e *index.Entry, rv uint64) error {
	if _, leaves := t.Coverage.Leaving(t.Index.Namespace(e)); leaves && !t.loop.rolledBack() {
		return nil // once the watch has brought what came before, which it does not after a rollback
	}
	if !t.loop.edited(&t.Coverage) {
		return t.endOutside(ctx, e, rv, cmp.Or(t.Coverage.At(), rv), true)
	}
	_, there, err := t.lookups.stillThere(ctx, e, rv)
	switch {
	case err == nil && !there:
		return t.End(ctx, event.Deleted, e, nil, rv, true)
	case err != nil && !listwatch.Expired(err) && !t.loop.unanswerable(err):
		return err
	}
	return t.Writer.WriteForgotten(ctx, e) // the cluster has not changed, or its state is unknown
}

// endOutside ends an object of a namespace that does not match: it left, unless it is gone at
// revision at.
func (t *Target) endOutside(ctx context.Context, e *index.Entry, at, cause uint64, replay bool) error {
	o, there, err := t.lookups.stillThere(ctx, e, at)
	switch {
	case listwatch.Expired(err), t.loop.unanswerable(err):
		o = nil // nothing says that it is gone
	case err != nil:
		return err
	case !there:
		return t.End(ctx, event.Deleted, e, nil, at, true)
	}
	if o == nil {
		if o, err = t.Writer.LastObject(ctx, e); err != nil {
			return err
		}
	}
	return t.leave(ctx, e, o, cause, replay)
}

// leave ends what is there and no longer covered. If the target resumed behind its
// last event, the watch brings that again.
func (t *Target) leave(ctx context.Context, e *index.Entry, o *frame.Object, cause uint64, replay bool) error {
	if e.RV > t.position.rv {
		t.position.ended[index.Key(t.Index.Namespace(e), t.Index.Name(e))] = e.RV
	}
	return t.End(ctx, event.Left, e, o, cause, replay)
}
