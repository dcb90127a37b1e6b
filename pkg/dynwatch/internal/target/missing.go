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
		now, still, err := t.stillThere(ctx, e, rv)
		compacted = listwatch.Expired(err)
		if compacted || listwatch.Unsupported(err) {
			if unknown {
				return nil
			}
			now, still, err = t.stillThereNow(ctx, e)
			if lasts(err) && !errors.Is(err, emit.ErrLog) { // what became of it cannot be read any more
				now, still, err = nil, t.mayExist(), nil
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
	r := decide.Rules{Selects: t.mayExist(), Edited: t.edited()}
	return decide.Decide(k, decide.Seen{Kind: decide.Absent, RV: rv}, r)
}

// edited reports whether all objects are compared because the selectors of the config were edited.
func (t *Target) edited() bool { return t.loop.lostBy(reasonSelection) && !t.Coverage.Outdated() }

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
	now, still, err := t.stillThere(ctx, e, rv)
	if t.loop.unanswerable(err) || d.IfExists == "" && listwatch.Expired(err) {
		now, still, err = t.stillThereNow(ctx, e)
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

// stillThere looks an object up as it was at rv. It may be there
// in a state that cannot be passed on, or not be read; o is nil then.
func (t *Target) stillThere(ctx context.Context, e *index.Entry, rv uint64) (o *frame.Object, there bool, err error) {
	found, ok, err := t.Discovery.Source.ObjectAt(ctx, t.Index.Namespace(e), t.Index.Name(e), rv)
	if errors.Is(err, listwatch.ErrOutside) {
		return nil, t.mayExist(), nil
	}
	return t.asEntry(ctx, e, found, ok, err)
}

// stillThereNow is stillThere for a revision that cannot be read. Where no object can be read by name, all that is
// known is that this one is not selected.
func (t *Target) stillThereNow(ctx context.Context, e *index.Entry) (o *frame.Object, there bool, err error) {
	found, ok, err := t.Discovery.Source.ObjectAt(ctx, t.Index.Namespace(e), t.Index.Name(e), 0)
	if errors.Is(err, listwatch.ErrOutside) || t.loop.unanswerable(err) {
		return nil, t.mayExist(), nil
	}
	return t.asEntry(ctx, e, found, ok, err)
}

// mayExist reports whether an object that the selection does not hold any more can exist: it may
// have changed, or the selection was edited.
func (t *Target) mayExist() bool {
	return t.Discovery.Source.Resource.Loses() || t.edited() && t.Spec.Selects()
}

// stillSelected is stillThere for what the target's selectors let through.
func (t *Target) stillSelected(ctx context.Context, e *index.Entry, rv uint64) (there bool, err error) {
	found, ok, err := t.Discovery.Source.MatchAt(ctx, t.Index.Namespace(e), t.Index.Name(e), rv)
	_, there, err = t.asEntry(ctx, e, found, ok, err)
	return there, err
}

// asEntry tells an answer about an entry's name from one about the entry.
func (t *Target) asEntry(ctx context.Context, e *index.Entry, found frame.Object, ok bool, err error) (*frame.Object, bool, error) {
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return nil, t.Index.IsUID(e, bad.UID), t.rejections.reject(ctx, bad)
	}
	return &found, ok && t.Index.IsUID(e, found.UID), err
}

// existedAt reports whether the object existed at a revision, outside of the selection. If etcd has
// compacted that, it is taken for new unless the log knows it.
func (t *Target) existedAt(ctx context.Context, o *frame.Object, rv uint64) (existed, compacted bool, err error) {
	then, ok, err := t.Discovery.Source.ObjectAt(ctx, o.Namespace, o.Name, rv)
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return bad.UID == o.UID, false, nil // it was there, in whatever state
	}
	compacted = listwatch.Expired(err)
	switch {
	case compacted, t.loop.unanswerable(err):
		of := t.Writer.Event(event.Entered, emit.IDOf(o), false)
		_, existed, err = t.Writer.Last(ctx, &of)
		return existed, compacted, err
	case errors.Is(err, listwatch.ErrOutside):
		return t.Discovery.Source.Resource.Loses(), false, nil
	}
	return err == nil && ok && then.UID == o.UID, false, err
}

// endReplaced ends the entry if the decision is that another object has replaced it. It returns the
// entry of the observed object, nil if there is none.
func (t *Target) endReplaced(ctx context.Context, d decide.Decision, e *index.Entry) (*index.Entry, error) {
	if !d.Replaced {
		return e, nil
	}
	return nil, t.End(ctx, event.Deleted, e, nil, d.ReplacedAt, true)
}

// ask returns the event of a decision about a state of an object. If the decision asks, it finds out
// whether the object existed at the revision before, which etcd may have compacted.
func (t *Target) ask(ctx context.Context, d decide.Decision, o *frame.Object, before uint64) (op event.Op, compacted bool, err error) {
	if !d.Ask {
		return d.Op, false, nil
	}
	existed, compacted, err := t.existedAt(ctx, o, before)
	if existed {
		return d.IfExists, compacted, err
	}
	return d.Op, compacted, err
}

// endUncovered ends what a list at rv cannot hold because its namespace does not match.
func (t *Target) endUncovered(ctx context.Context, e *index.Entry, rv uint64) error {
	if _, leaves := t.Coverage.Leaving(t.Index.Namespace(e)); leaves && !t.loop.rolledBack() {
		return nil // once the watch has brought what came before, which it does not after a rollback
	}
	if !t.edited() {
		return t.endOutside(ctx, e, rv, cmp.Or(t.Coverage.At(), rv), true)
	}
	_, there, err := t.stillThere(ctx, e, rv)
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
	o, there, err := t.stillThere(ctx, e, at)
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
