package dynwatch

import (
	"context"
	"errors"
	"slices"

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

// endGone emits the end of an object for which a DELETED frame o came. If nobody was told
// of the object, only its deletion counts: it cannot leave where it never was.
func (t *decider) endGone(ctx context.Context, e *index.Entry, o *frame.Object, told bool) error {
	if !t.spec.selects() {
		return t.end(ctx, event.Deleted, e, o, o.ResourceVersion, false)
	}
	now, still, err := t.stillThere(ctx, e, o.ResourceVersion)
	switch {
	case listwatch.Expired(err), listwatch.Unsupported(err):
		return t.postpone(ctx, e)
	case err != nil:
		return err
	case still && !told:
		return nil
	case still:
		return t.end(ctx, event.Left, e, now, o.ResourceVersion, false)
	default:
		return t.end(ctx, event.Deleted, e, o, o.ResourceVersion, false)
	}
}

// endUntold is endGone for an object that nobody was told of.
func (t *decider) endUntold(ctx context.Context, o *frame.Object) error {
	e := t.index.Put(emit.IDOf(o))
	h := t.index.Handle(e)
	err := t.endGone(ctx, e, o, false)
	if e := t.index.ByHandle(h); e != nil {
		t.index.Remove(e) // what became of it is not known
	}
	return err
}

// endAbsent emits the end of an object that a list at rv did not hold.
func (t *decider) endAbsent(ctx context.Context, e *index.Entry, rv uint64) error {
	if !t.coverage.Filter.Covers(t.index.Namespace(e)) {
		return t.endUncovered(ctx, e, rv)
	}
	if t.doubts(e) {
		return t.endDoubtful(ctx, e, rv)
	}
	if spared, err := t.spared(ctx, e, rv); spared || err != nil {
		return err
	}
	if !t.spec.selects() {
		return t.end(ctx, event.Deleted, e, nil, rv, true)
	}
	t.status.beatNow() // a list can lack many
	now, still, err := t.stillThere(ctx, e, rv)
	switch {
	case listwatch.Expired(err), listwatch.Unsupported(err):
		return t.postpone(ctx, e)
	case err != nil:
		return err
	case still && t.lost != nil && t.lost.Reason == recovery.ReasonSelection:
		t.drop(e) // it was not the cluster that changed
		return nil
	case still:
		return t.end(ctx, event.Left, e, now, rv, true)
	default:
		return t.end(ctx, event.Deleted, e, nil, rv, true)
	}
}

// stillThere looks an object up as it was at rv. It may be there
// in a state that cannot be passed on; o is nil then.
func (t *decider) stillThere(ctx context.Context, e *index.Entry, rv uint64) (o *frame.Object, there bool, err error) {
	found, ok, err := t.source.ObjectAt(ctx, t.index.Namespace(e), t.index.Name(e), rv)
	return t.asEntry(ctx, e, found, ok, err)
}

// stillSelected is stillThere for what the target's selectors let through.
func (t *decider) stillSelected(ctx context.Context, e *index.Entry, rv uint64) (o *frame.Object, there bool, err error) {
	found, ok, err := t.source.MatchAt(ctx, t.index.Namespace(e), t.index.Name(e), rv)
	return t.asEntry(ctx, e, found, ok, err)
}

// asEntry tells an answer about an entry's name from one about the entry.
func (t *decider) asEntry(ctx context.Context, e *index.Entry, found frame.Object, ok bool, err error) (*frame.Object, bool, error) {
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		return nil, t.index.IsUID(e, bad.UID), t.reject(ctx, bad)
	}
	return &found, ok && t.index.IsUID(e, found.UID), err
}

// undecided is an object for which a DELETED frame came so late that etcd no
// longer knows whether it was deleted or left: only how it is at revision at.
// Frames may still tell of it until then: it may have come back before its end.
// Called deleted at once, it would then be deleted twice.
type undecided struct {
	entry index.Handle
	rv    uint64
	at    uint64
	now   *frame.Object // nil if it is gone
	there bool
}

// postpone keeps the entry as it is until the watch has come to the present.
func (t *decider) postpone(ctx context.Context, e *index.Entry) error {
	if e.Ordinal == 0 {
		return nil // nobody was told of it, and what became of it is not known
	}
	u := undecided{entry: t.index.Handle(e), rv: e.RV}
	if slices.ContainsFunc(t.undecided, func(other undecided) bool { return other.entry == u.entry && other.rv == u.rv }) {
		return nil
	}
	found, ok, at, err := t.source.Look(ctx, t.index.Namespace(e), t.index.Name(e), 0)
	if errors.Is(err, listwatch.ErrUnselected) {
		found, ok, at, err = t.source.LookAmong(ctx, t.index.Namespace(e), t.index.Name(e))
	}
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		u.there, u.at = t.index.IsUID(e, bad.UID), bad.ResourceVersion
		err = t.reject(ctx, bad)
	} else {
		u.there, u.at = ok && t.index.IsUID(e, found.UID), at
		if u.there {
			u.now = &found
		}
	}
	if err != nil {
		return err
	}
	t.undecided = append(t.undecided, u)
	return nil
}

// decide ends what was postponed and the watch has not told of since.
func (t *decider) decide(ctx context.Context) error {
	var open []undecided
	for _, u := range t.undecided {
		switch e := t.index.ByHandle(u.entry); {
		case t.cursor < u.at:
			open = append(open, u)
		case e == nil || e.RV != u.rv:
			// A frame told of it.
		default:
			op := event.Deleted
			if u.there {
				op = event.Left
			}
			if err := t.end(ctx, op, e, u.now, max(u.at, u.rv+1), true); err != nil {
				return err
			}
		}
	}
	t.undecided = open
	return t.Flush(ctx)
}

// arrivalOp tells whether an object that came with an ADDED frame is new or has
// entered the selection. If etcd has compacted the revision before, it is taken
// for new.
func (t *decider) arrivalOp(ctx context.Context, o *frame.Object) (event.Op, error) {
	if !t.spec.selects() {
		return event.Added, nil
	}
	return t.addedOrEntered(ctx, o, o.ResourceVersion-1)
}

// newcomerOp is the operation for a listed object that the index does not hold.
func (t *sweeper) newcomerOp(ctx context.Context, s *sweep, o *frame.Object) (event.Op, error) {
	if t.lost != nil && t.lost.Reason == recovery.ReasonSelection {
		return event.Snapshot, nil
	}
	if !t.spec.selects() || !s.replay || s.rollback {
		return s.newcomer, nil
	}
	return t.addedOrEntered(ctx, o, t.cursor)
}

// addedOrEntered asks whether the object existed at the revision before.
func (t *decider) addedOrEntered(ctx context.Context, o *frame.Object, before uint64) (event.Op, error) {
	then, ok, err := t.source.ObjectAt(ctx, o.Namespace, o.Name, before)
	if bad, isBad := errors.AsType[*frame.Malformed](err); isBad {
		then, ok, err = frame.Object{UID: bad.UID}, true, nil // it was there, in whatever state
	}
	switch {
	case listwatch.Expired(err), listwatch.Unsupported(err):
		return event.Added, nil
	case err != nil:
		return "", err
	case ok && then.UID == o.UID:
		return event.Entered, nil
	default:
		return event.Added, nil
	}
}
