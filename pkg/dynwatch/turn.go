package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// reselect brings the coverage in line with the Namespaces, if it is not. Between
// two frames, and not while history is made up for: that goes by what was covered.
func (t *target) reselect(ctx context.Context) error {
	c := &t.coverage
	if !c.due || !c.known || t.lost != nil || len(t.undecided) > 0 {
		return nil
	}
	now, err := t.lookAtNamespaces()
	if err != nil || now == nil {
		return err
	}
	arriving, departing := t.coverage.toTurn(now)
	if len(arriving)+len(departing) > 0 {
		t.abandonAudit()
		if err := t.turn(ctx, arriving, departing, now); err != nil {
			if listwatch.Expired(err) {
				// It was a list that took too long, and not the watch.
				err = fmt.Errorf("list a namespace: %v", err) //nolint:errorlint // see above
			}
			return err
		}
	}
	c.due, c.resumed = false, false
	c.seen = now.seq
	if !c.apart {
		c.leftOut.prune(now.at)
	}
	if c.at != now.at {
		c.at = now.at
		t.markSoon()
	}
	return nil
}

// toTurn returns the names that are to be covered and are not, and those that are
// and should not be.
func (c *coverage) toTurn(now *viewed) (arriving, departing []string) {
	departs := maps.Clone(now.departing)
	for name, d := range c.leaving {
		if d.until == 0 && !now.matching.has(name) {
			departs[name] = struct{}{} // it was broken off
		}
	}
	return slices.Sorted(maps.Keys(now.arriving)), slices.Sorted(maps.Keys(departs))
}

// turn covers namespaces and stops to cover others. The mark says so before the
// first event of it: a process that dies over it looks at them again.
func (t *target) turn(ctx context.Context, arriving, departing []string, now *viewed) error {
	c := &t.coverage
	for _, name := range slices.Concat(arriving, departing) {
		c.turning[name] = struct{}{}
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := t.keepMark(ctx, t.position()); err != nil {
		return err
	}
	for _, name := range departing {
		if err := t.depart(ctx, name, c.namespaces.since(name)); err != nil {
			return err
		}
	}
	for _, name := range arriving {
		if err := t.arrive(ctx, name, now.arriving[name]); err != nil {
			return err
		}
	}
	clear(c.turning)
	c.at = now.at
	if c.covered.equals(&now.matching) {
		c.covered = now.matching // targets share it
		t.publish()
	}
	if err := t.pass(ctx, t.resume()); err != nil {
		return err
	}
	t.logger.Debug("namespaces matched or unmatched", "matched", len(arriving), "unmatched", len(departing), "count", c.covered.len())
	return t.markNow(ctx)
}

// depart stops to cover a namespace. What a list shows to be as the index has it
// leaves at once; of the rest the stream has more to bring.
func (t *target) depart(ctx context.Context, namespace string, cause uint64) error {
	c := &t.coverage
	c.covered = c.covered.without(namespace)
	c.leaving[namespace] = departure{cause: cause}
	c.leftOut.begin(namespace, t.cursor)
	t.publish()
	until, err := t.source.List(ctx, &listwatch.Listing{Namespace: namespace}, t.source.Whole, func(o *frame.Object, bad *frame.Malformed) error {
		t.status.progressNow()
		if bad == nil { // else what is known of it leaves later
			if e := t.index.Get(o.Namespace, o.Name); e != nil && t.index.IsUID(e, o.UID) && t.index.Newest(e) == o.ResourceVersion {
				return t.leave(ctx, e, o, cause, false)
			}
		}
		return nil
	})
	if err := errors.Join(err, t.flush(ctx)); err != nil {
		return err
	}
	c.leaving[namespace] = departure{until: until, cause: cause}
	delete(c.doubtful, namespace)
	t.publish()
	return nil
}

// arrive covers a namespace that has turned, from here on.
func (t *target) arrive(ctx context.Context, namespace string, when turned) error {
	c := &t.coverage
	told := c.leaving[namespace].told
	delete(c.leaving, namespace)
	c.covered = c.covered.with(namespace)
	t.publish()
	told, err := t.catchUpWith(ctx, namespace, when, told)
	if err := errors.Join(err, t.flush(ctx)); err != nil {
		// It is begun anew, or departs if it does not match any more by then.
		c.covered = c.covered.without(namespace)
		c.leaving[namespace] = departure{cause: when.since, told: told}
		t.publish()
		return err
	}
	delete(c.doubtful, namespace)
	return nil
}

// arrival is a namespace that has turned, and what is known of it.
type arrival struct {
	namespace string
	// cause is the revision of the Namespace, after one at which it did not match yet.
	cause, after uint64
	// leftOut are the frames that were left out since; known: there are no others.
	leftOut []leftFrame
	known   bool
	// ahead: the log holds more of it than the cursor says.
	ahead bool
}

// catchUpWith tells what is in a namespace that has turned, up to the cursor: what
// is in it there enters, and the frames that follow tell the rest. If frames were
// left out since it turned, it enters as it was then, and they are told from etcd.
// Where that is not possible, or not known, a gap says so. If it fails, it is to go on
// from the revision that it returns.
func (t *target) catchUpWith(ctx context.Context, namespace string, when turned, told uint64) (uint64, error) {
	c := &t.coverage
	a := arrival{namespace: namespace, cause: when.since}
	if c.apart {
		a.leftOut, a.after, a.known = c.filteredOut(namespace)
	} else {
		a.after = c.notYet(namespace, when)
		a.leftOut, a.known = c.leftOut.of(namespace, a.after)
	}
	a.ahead = t.cursor < max(c.ahead, c.listed[namespace])
	if exact := !c.apart && a.cause-a.after == 1; exact && len(a.leftOut) > 0 && !a.ahead {
		from := max(when.since, told, c.leftOut.told[namespace])
		_, torn, err := t.listArrived(ctx, namespace, from, a.cause)
		if err == nil {
			told, err = t.tellLeftOut(ctx, a.leftOut, from)
		}
		if err == nil && torn {
			err = t.declare(ctx, event.GapInfo{From: a.after, To: t.cursor})
		}
		if !listwatch.Expired(err) && !listwatch.Unsupported(err) {
			return told, err
		}
		if err := t.declare(ctx, event.GapInfo{From: a.after, To: t.cursor}); err != nil {
			return told, err
		}
		a.leftOut, told = nil, t.cursor
	}
	return told, t.catchUpByList(ctx, &a)
}

// catchUpByList has what is in a namespace at the cursor enter. If etcd has forgotten
// that revision, or the log is ahead of it, what there is now enters, and the frames up
// to that tell nothing new.
func (t *target) catchUpByList(ctx context.Context, a *arrival) error {
	at := t.cursor
	if a.ahead {
		at = 0
	}
	rv, torn, err := t.listArrived(ctx, a.namespace, at, a.cause)
	if at != 0 && (listwatch.Expired(err) || listwatch.Unsupported(err)) {
		rv, torn, err = t.listArrived(ctx, a.namespace, 0, a.cause)
	}
	if err != nil {
		return err
	}
	c := &t.coverage
	c.listed[a.namespace], c.skipped[a.namespace] = rv, max(a.after, t.cursor)
	if _, doubtful := c.doubtful[a.namespace]; doubtful {
		c.skipped[a.namespace] = t.cursor // it may have matched throughout
	}
	switch {
	case !a.known, !t.explained(a.leftOut):
		return t.declare(ctx, event.GapInfo{From: a.after, To: max(rv, t.cursor)})
	case torn:
		return t.declare(ctx, event.GapInfo{From: t.resume(), To: rv})
	default:
		return nil
	}
}

// declare says that states may be missing of namespaces that have turned, unless that
// was said.
func (t *target) declare(ctx context.Context, g event.GapInfo) error {
	g.Reason, g.Recovered = reasonSelection, event.RecoveredState
	if said := t.coverage.declared; said.From <= g.From && g.To <= said.To {
		return nil
	}
	t.coverage.declared = g
	t.logger.Warn("history lost; declaring a gap", "reason", g.Reason, "from", g.From, "to", g.To, "recovered", g.Recovered)
	return t.emitGap(ctx, g)
}

// listArrived announces how a list of a namespace differs from what the index holds
// of it. It returns the list's revision, and whether the index held anything in an
// older state, so that revisions between the two were not told.
func (t *target) listArrived(ctx context.Context, namespace string, at, cause uint64) (rv uint64, torn bool, err error) {
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
func (t *target) catchUp(ctx context.Context, e *index.Entry, o *frame.Object, cause uint64) error {
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
func (t *target) announceArrived(ctx context.Context, o *frame.Object, cause uint64) error {
	op := event.Entered
	if o.ResourceVersion > cause && !t.coverage.apart {
		of := t.event(op, idOf(o), false)
		_, known, err := t.lastKnown(ctx, &of)
		if err == nil && !known {
			op, err = t.addedOrEntered(ctx, o, cause)
		}
		if err != nil {
			return err
		}
	}
	return t.announceCaused(ctx, op, o, nil, false, cause)
}
