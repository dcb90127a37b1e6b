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
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
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
func (ob *objects) endGone(ctx context.Context, d decide.Decision, id index.ID, e *index.Entry, rv uint64, o *frame.Object) error {
	unknown := e == nil
	if unknown {
		e = ob.index.Put(id)
		defer ob.index.Remove(e) // what became of it is not known
	}
	op, compacted := d.Op, false
	if d.Ask {
		now, still, err := ob.lookups.stillThere(ctx, e, rv)
		compacted = listwatch.Expired(err)
		if compacted || listwatch.Unsupported(err) {
			if unknown {
				return nil
			}
			now, still, err = ob.lookups.stillThereNow(ctx, e)
			if lasts(err) && !errors.Is(err, emit.ErrLog) { // what became of it cannot be read any more
				now, still, err = nil, ob.lookups.mayExist(), nil
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
	return ob.End(ctx, op, e, o, rv, compacted)
}

// decideAbsent is what it means that a list at revision rv lacks the entry's object.
func (ob *objects) decideAbsent(e *index.Entry, rv uint64) decide.Decision {
	k := decide.Known{Object: decide.Same, RV: e.RV, Newest: ob.index.Newest(e), Restored: ob.loop.rolledBack()}
	r := decide.Rules{Selects: ob.lookups.mayExist(), Edited: ob.loop.edited(ob.coverage)}
	return decide.Decide(k, decide.Seen{Kind: decide.Absent, RV: rv}, r)
}

// endAbsent emits the end of an object that a list at rv did not hold.
func (ob *objects) endAbsent(ctx context.Context, e *index.Entry, rv uint64) error {
	d := ob.decideAbsent(e, rv)
	switch {
	case d.Op == "":
		return nil
	case !ob.coverage.Filter.Covers(ob.index.Namespace(e)):
		return ob.endUncovered(ctx, e, rv)
	case !d.Ask:
		return ob.End(ctx, d.Op, e, nil, rv, true)
	}
	ob.status.Alive() // a list can lack many
	now, still, err := ob.lookups.stillThere(ctx, e, rv)
	if ob.loop.unanswerable(err) || d.IfExists == "" && listwatch.Expired(err) {
		now, still, err = ob.lookups.stillThereNow(ctx, e)
	}
	switch {
	case err != nil: // if etcd has compacted the revision, another list follows
		return err
	case still && d.IfExists == "":
		return ob.writer.WriteForgotten(ctx, e) // it was not the cluster that changed
	case still:
		return ob.End(ctx, d.IfExists, e, now, rv, true)
	default:
		return ob.End(ctx, d.Op, e, nil, rv, true)
	}
}

// endReplaced ends the entry if the decision is that another object has replaced it. It returns the
// entry of the observed object, nil if there is none.
func (ob *objects) endReplaced(ctx context.Context, d decide.Decision, e *index.Entry) (*index.Entry, error) {
	if !d.Replaced {
		return e, nil
	}
	return nil, ob.End(ctx, event.Deleted, e, nil, d.ReplacedAt, true)
}

// endUncovered ends what a list at rv cannot hold because its namespace does not match.
func (ob *objects) endUncovered(ctx context.Context, e *index.Entry, rv uint64) error {
	if _, leaves := ob.coverage.Leaving(ob.index.Namespace(e)); leaves && !ob.loop.rolledBack() {
		return nil // once the watch has brought what came before, which it does not after a rollback
	}
	if !ob.loop.edited(ob.coverage) {
		return ob.endOutside(ctx, e, rv, cmp.Or(ob.coverage.At(), rv), true)
	}
	_, there, err := ob.lookups.stillThere(ctx, e, rv)
	switch {
	case err == nil && !there:
		return ob.End(ctx, event.Deleted, e, nil, rv, true)
	case err != nil && !listwatch.Expired(err) && !ob.loop.unanswerable(err):
		return err
	}
	return ob.writer.WriteForgotten(ctx, e) // the cluster has not changed, or its state is unknown
}

// endOutside ends an object of a namespace that does not match: it left, unless it is gone at
// revision at.
func (ob *objects) endOutside(ctx context.Context, e *index.Entry, at, cause uint64, replay bool) error {
	o, there, err := ob.lookups.stillThere(ctx, e, at)
	switch {
	case listwatch.Expired(err), ob.loop.unanswerable(err):
		o = nil // nothing says that it is gone
	case err != nil:
		return err
	case !there:
		return ob.End(ctx, event.Deleted, e, nil, at, true)
	}
	if o == nil {
		if o, err = ob.writer.LastObject(ctx, e); err != nil {
			return err
		}
	}
	return ob.leave(ctx, e, o, cause, replay)
}

// leave ends what is there and no longer covered. If the target resumed behind its
// last event, the watch brings that again.
func (ob *objects) leave(ctx context.Context, e *index.Entry, o *frame.Object, cause uint64, replay bool) error {
	if e.RV > ob.position.rv {
		ob.position.ended[index.Key(ob.index.Namespace(e), ob.index.Name(e))] = e.RV
	}
	return ob.End(ctx, event.Left, e, o, cause, replay)
}

// emitDecided emits what was decided about a result. The index holds e of its object, nil if nothing.
func (ob *objects) emitDecided(ctx context.Context, d decide.Decision, e *index.Entry, f *recovery.Result) error {
	switch {
	case d.Op == "":
		return nil
	case f.End && f.Left:
		return ob.End(ctx, d.IfExists, e, f.Object, f.RV, true)
	case f.End:
		return ob.End(ctx, d.Op, e, f.Object, f.RV, true)
	}
	op, _, err := ob.lookups.ask(ctx, d, f.Object, f.RV-1)
	if err != nil {
		return err
	}
	return ob.Announce(ctx, op, f.Object, e, true, f.Object.ResourceVersion)
}

// missedStay follows a state of an object that is deleted by both log and etcd: it had left the selection when the
// present said that it was deleted, see endGone. A list and a gap follow, unless etcd never had the state.
func (ob *objects) missedStay(ctx context.Context, id index.ID, rv uint64) error {
	_, there, err := ob.discovery.Source.MatchAt(ctx, id.Namespace, id.Name, rv)
	if there || err != nil && !listwatch.Unsupported(err) {
		return lossError{of: &loss{reason: reasonExpired, from: ob.position.resume()}}
	}
	return nil
}
