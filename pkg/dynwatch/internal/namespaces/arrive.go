package namespaces

import (
	"context"
	"errors"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/decide"
	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// arrive covers a namespace that has turned, from here on.
func (t *Follower) arrive(ctx context.Context, namespace string, when selection.Turned) error {
	c := &t.Coverage
	announced := c.Cover(namespace)
	a := c.Arrive(namespace, when, t.Cursor, announced)
	announced, err := t.catchUpWith(ctx, a, announced)
	if err := errors.Join(err, t.Flush(ctx)); err != nil {
		// It is begun anew, or departs if it does not match any more by then.
		c.Uncover(namespace, selection.Departure{Cause: a.Cause, Announced: announced, MissingAfter: max(a.After, 1)})
		return err
	}
	c.Sure(namespace)
	return nil
}

// catchUpWith tells what is in a namespace that has turned, up to the cursor: what
// is in it there enters, and the frames that follow tell the rest. If frames were
// left out since it turned, it enters as it was then, and they are told from etcd.
// Where that is not possible, or not known, a gap says so. If it fails, it is to go on
// from the revision that it returns.
func (t *Follower) catchUpWith(ctx context.Context, a *selection.Arrival, announced uint64) (uint64, error) {
	if a.From != 0 {
		_, torn, err := t.listArrived(ctx, a.Namespace, a.From, a.Cause)
		if err == nil {
			announced, err = t.tellLeftOut(ctx, a.LeftOut, a.From)
		}
		if err == nil && torn {
			err = t.Declare(ctx, event.GapInfo{From: a.After, To: t.Cursor})
		}
		if !listwatch.Expired(err) && !listwatch.Unsupported(err) {
			return announced, err
		}
		if err := t.Declare(ctx, event.GapInfo{From: a.After, To: t.Cursor}); err != nil {
			return announced, err
		}
		a.LeftOut, announced = nil, t.Cursor
	}
	return announced, t.catchUpByList(ctx, a)
}

// catchUpByList has what is in a namespace at the cursor enter. If etcd has forgotten
// that revision, or the log is ahead of it, what there is now enters, and the frames up
// to that tell nothing new.
func (t *Follower) catchUpByList(ctx context.Context, a *selection.Arrival) error {
	at := t.Cursor
	if a.Ahead {
		at = 0
	}
	rv, torn, err := t.listArrived(ctx, a.Namespace, at, a.Cause)
	if at != 0 && (listwatch.Expired(err) || listwatch.Unsupported(err)) {
		rv, torn, err = t.listArrived(ctx, a.Namespace, 0, a.Cause)
	}
	if err != nil {
		return err
	}
	t.Coverage.BeginWith(a, rv, t.Cursor)
	switch {
	case !a.Known, !t.Explained(a.LeftOut):
		return t.Declare(ctx, event.GapInfo{From: a.After, To: max(rv, t.Cursor)})
	case torn:
		return t.Declare(ctx, event.GapInfo{From: t.Resume(), To: rv})
	default:
		return nil
	}
}

// listArrived announces how a list of a namespace differs from what the index holds
// of it. It returns the list's revision, and whether the index held anything in an
// older state, so that revisions between the two were not told.
func (t *Follower) listArrived(ctx context.Context, namespace string, at, cause uint64) (rv uint64, torn bool, err error) {
	t.Sweeps++
	number, blind := t.Sweeps, false
	rv, err = t.Source.List(ctx, &listwatch.Listing{At: at, Namespace: namespace}, t.Source.Whole, func(o *frame.Object, bad *frame.Malformed) error {
		t.Status.Progressed()
		if bad != nil {
			blind = blind || t.Source.Unidentified(bad)
			if e := t.Index.Get(bad.Namespace, bad.Name); e != nil {
				e.Sweep = number
			}
			return t.Reject(ctx, bad)
		}
		known, err := t.takeArrived(ctx, o, cause)
		if err != nil {
			return err
		}
		torn = torn || known
		t.Index.Get(o.Namespace, o.Name).Sweep = number
		return nil
	})
	if err != nil {
		return rv, torn, err
	}
	gone := slices.DeleteFunc(t.entriesOf(namespace), func(e *index.Entry) bool { return e.Sweep == number || t.Absent(e, rv).Op == "" })
	if blind && len(gone) > 0 {
		t.Logger.Warn("list has unreadable objects; deletions not emitted yet")
		return rv, torn, nil // the audit finds what is missing
	}
	if err := t.Confirm(ctx, gone, rv); err != nil {
		return rv, torn, err
	}
	for _, e := range gone {
		if err := t.EndAbsent(ctx, e, rv); err != nil {
			return rv, torn, err
		}
	}
	return rv, torn || len(gone) > 0, nil
}

// takeArrived announces how an object in a namespace that is covered from now on differs from what
// the index holds of its name. Known: that was an older state, or another object.
func (t *Follower) takeArrived(ctx context.Context, o *frame.Object, cause uint64) (known bool, err error) {
	k, e := t.Known(emit.IDOf(o))
	k.Past = 0 // by frames of the time in which the namespace did not match
	d := decide.Decide(k, decide.Seen{Kind: decide.Listed, RV: o.ResourceVersion}, decide.Rules{Arrival: event.Added, Selects: true})
	if e, err = t.EndReplaced(ctx, d, e); err != nil {
		return true, err
	}
	switch {
	case d.Op == "":
		return false, nil
	case e != nil:
		return true, t.Announce(ctx, d.Op, o, e, true)
	}
	if err := t.CheckEntered(ctx, o, t.Cursor); err != nil {
		return d.Replaced, err
	}
	there, err := t.existed(ctx, o, cause)
	if err != nil {
		return d.Replaced, err
	}
	if there {
		d.Op = d.IfExists
	}
	return d.Replaced, t.AnnounceCaused(ctx, d.Op, o, nil, false, cause)
}

// existed reports whether an object that was not covered existed when its namespace began to match, at
// revision cause.
func (t *Follower) existed(ctx context.Context, o *frame.Object, cause uint64) (bool, error) {
	if o.ResourceVersion <= cause || t.Coverage.Apart {
		return true, nil
	}
	of := t.Event(event.Entered, emit.IDOf(o), false)
	if _, known, err := t.Last(ctx, &of); known || err != nil {
		return known, err
	}
	return t.ExistedAt(ctx, o, cause)
}
