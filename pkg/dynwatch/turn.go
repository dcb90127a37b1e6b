package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/selection"
	"github.com/informd/informd/pkg/event"
)

// reselect brings the coverage in line with the Namespaces, if it is not. Between
// two frames, and not while history is made up for: that goes by what was covered.
func (t *namespacer) reselect(ctx context.Context) error {
	c := &t.coverage
	if !c.Due || !c.Known || t.lost != nil || len(t.undecided) > 0 {
		return nil
	}
	now, arriving, departing, err := c.Look()
	if err != nil || now == nil {
		return err
	}
	if len(arriving)+len(departing) > 0 {
		t.interrupt()
		if err := t.turn(ctx, arriving, departing, now); err != nil {
			if listwatch.Expired(err) {
				// It was a list that took too long, and not the watch.
				err = fmt.Errorf("list a namespace: %v", err) //nolint:errorlint // see above
			}
			return err
		}
	}
	if c.Settle(now) {
		t.marks.Soon()
	}
	return nil
}

// turn covers namespaces and stops to cover others. The mark says so before the
// first event of it: a process that dies over it looks at them again.
func (t *namespacer) turn(ctx context.Context, arriving, departing []string, now *selection.Viewed) error {
	c := &t.coverage
	c.Turn(slices.Concat(arriving, departing))
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if err := t.keepMark(ctx, t.checkpoint()); err != nil {
		return err
	}
	for _, name := range departing {
		if err := t.depart(ctx, name, c.Namespaces.Since(name)); err != nil {
			return err
		}
	}
	for _, name := range arriving {
		if err := t.arrive(ctx, name, now.Arriving[name]); err != nil {
			return err
		}
	}
	count := c.Turned(now)
	if err := t.pass(ctx, t.resume()); err != nil {
		return err
	}
	t.logger.Debug("namespaces matched or unmatched", "matched", len(arriving), "unmatched", len(departing), "count", count)
	return t.markNow(ctx)
}

// depart stops to cover a namespace. What a list shows to be as the index has it
// leaves at once; of the rest the stream has more to bring.
func (t *namespacer) depart(ctx context.Context, namespace string, cause uint64) error {
	c := &t.coverage
	c.LeftOutSince(namespace, t.cursor)
	c.Uncover(namespace, selection.Departure{Cause: cause})
	until, err := t.source.List(ctx, &listwatch.Listing{Namespace: namespace}, t.source.Whole, func(o *frame.Object, bad *frame.Malformed) error {
		t.status.progressNow()
		if bad == nil { // else what is known of it leaves later
			if e := t.index.Get(o.Namespace, o.Name); e != nil && t.index.IsUID(e, o.UID) && t.index.Newest(e) == o.ResourceVersion {
				return t.leave(ctx, e, o, cause, false)
			}
		}
		return nil
	})
	if err := errors.Join(err, t.Flush(ctx)); err != nil {
		return err
	}
	c.Uncover(namespace, selection.Departure{Until: until, Cause: cause})
	c.Sure(namespace)
	return nil
}

// arrive covers a namespace that has turned, from here on.
func (t *namespacer) arrive(ctx context.Context, namespace string, when selection.Turned) error {
	c := &t.coverage
	told := c.Cover(namespace)
	a := c.Arrive(namespace, when, t.cursor, told)
	told, err := t.catchUpWith(ctx, a, told)
	if err := errors.Join(err, t.Flush(ctx)); err != nil {
		// It is begun anew, or departs if it does not match any more by then.
		c.Uncover(namespace, selection.Departure{Cause: a.Cause, Announced: told})
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
func (t *namespacer) catchUpWith(ctx context.Context, a *selection.Arrival, told uint64) (uint64, error) {
	if a.From != 0 {
		_, torn, err := t.listArrived(ctx, a.Namespace, a.From, a.Cause)
		if err == nil {
			told, err = t.tellLeftOut(ctx, a.LeftOut, a.From)
		}
		if err == nil && torn {
			err = t.declare(ctx, event.GapInfo{From: a.After, To: t.cursor})
		}
		if !listwatch.Expired(err) && !listwatch.Unsupported(err) {
			return told, err
		}
		if err := t.declare(ctx, event.GapInfo{From: a.After, To: t.cursor}); err != nil {
			return told, err
		}
		a.LeftOut, told = nil, t.cursor
	}
	return told, t.catchUpByList(ctx, a)
}

// catchUpByList has what is in a namespace at the cursor enter. If etcd has forgotten
// that revision, or the log is ahead of it, what there is now enters, and the frames up
// to that tell nothing new.
func (t *namespacer) catchUpByList(ctx context.Context, a *selection.Arrival) error {
	at := t.cursor
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
	t.coverage.BeginWith(a, rv, t.cursor)
	switch {
	case !a.Known, !t.explained(a.LeftOut):
		return t.declare(ctx, event.GapInfo{From: a.After, To: max(rv, t.cursor)})
	case torn:
		return t.declare(ctx, event.GapInfo{From: t.resume(), To: rv})
	default:
		return nil
	}
}

// declare says that states may be missing of namespaces that have turned, unless that
// was said.
func (t *decider) declare(ctx context.Context, g event.GapInfo) error {
	g.Reason, g.Recovered = recovery.ReasonSelection, event.RecoveredState
	if !t.coverage.Declares(g) {
		return nil
	}
	t.logger.Warn("history lost; declaring a gap", "reason", g.Reason, "from", g.From, "to", g.To, "recovered", g.Recovered)
	return t.EmitGap(ctx, g)
}

// listArrived announces how a list of a namespace differs from what the index holds
// of it. It returns the list's revision, and whether the index held anything in an
// older state, so that revisions between the two were not told.
func (t *namespacer) listArrived(ctx context.Context, namespace string, at, cause uint64) (rv uint64, torn bool, err error) {
	t.sweeps++
	number := t.sweeps
	rv, err = t.source.List(ctx, &listwatch.Listing{At: at, Namespace: namespace}, t.source.Whole, func(o *frame.Object, bad *frame.Malformed) error {
		t.status.progressNow()
		if bad != nil {
			if e := t.index.Get(bad.Namespace, bad.Name); e != nil {
				e.Sweep = number
			}
			return t.reject(ctx, bad)
		}
		var err error
		e := t.index.Get(o.Namespace, o.Name)
		if e == nil {
			err = t.announceArrived(ctx, o, cause)
		} else if o.ResourceVersion > t.index.Newest(e) {
			torn = true
			err = t.catchUp(ctx, e, o, cause)
		}
		if err != nil {
			return err
		}
		t.index.Get(o.Namespace, o.Name).Sweep = number
		return nil
	})
	if err != nil {
		return rv, torn, err
	}
	for _, e := range t.entriesOf(namespace) {
		if e.Sweep == number || e.RV > rv {
			continue
		}
		torn = true
		if err := t.endAbsent(ctx, e, rv); err != nil {
			return rv, torn, err
		}
	}
	return rv, torn, nil
}

// catchUp announces a newer state of what the index holds, or of what replaced it.
func (t *namespacer) catchUp(ctx context.Context, e *index.Entry, o *frame.Object, cause uint64) error {
	if t.index.IsUID(e, o.UID) {
		return t.announce(ctx, event.Modified, o, e, true)
	}
	if err := t.end(ctx, event.Deleted, e, nil, replacedAt(e, o.ResourceVersion), true); err != nil {
		return err
	}
	return t.announceArrived(ctx, o, cause)
}

// announceArrived tells of an object in a namespace that is covered from now on. It
// has entered, but for one that came to be after the Namespace was as it is now.
func (t *namespacer) announceArrived(ctx context.Context, o *frame.Object, cause uint64) error {
	op := event.Entered
	if o.ResourceVersion > cause && !t.coverage.Apart {
		of := t.Event(op, emit.IDOf(o), false)
		_, known, err := t.Last(ctx, &of)
		if err == nil && !known {
			op, err = t.addedOrEntered(ctx, o, cause)
		}
		if err != nil {
			return err
		}
	}
	return t.announceCaused(ctx, op, o, nil, false, cause)
}
