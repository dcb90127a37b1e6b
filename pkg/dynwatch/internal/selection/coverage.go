// Package selection knows which namespaces a target covers: by name, and by the labels of the
// Namespaces, which one watch follows for all targets. It says which namespaces begin and stop
// to match, and what of their history is known. It makes no event: its callers, the loops of
// targets and the plan, do.
package selection

import (
	"maps"
	"slices"

	"github.com/informd/informd/pkg/event"
)

// Coverage are the namespaces that a target covers by their labels, as far as its
// own stream has come. The watch of the Namespaces and that of the objects are two
// streams without a common order: a change of one takes effect between two frames
// of the other. It belongs to the loop of the target; only Filter may be
// used concurrently. Its fields are one state: nearly every step changes several of them.
type Coverage struct {
	rule Rule
	// Filter has what is covered, nil if the rule filters nothing.
	Filter     *Filter
	Namespaces *Namespaces
	// Changed has a value when there may be something new, and is nil while the
	// Namespaces are not followed.
	Changed chan struct{}
	// Due: the Namespaces may have changed since this was brought in line with them.
	Due bool
	// Known: covered is what it should be, as of the revision at of the Namespaces.
	Known   bool
	at      uint64
	covered nameSet
	// passed is at as far as it compares with frames. A rollback sets it to 0 until the
	// Namespaces have left stale, their revision in the former history.
	passed, stale uint64
	// seen is the place in the view of the Namespaces that covered is in line with, 0 if
	// all names are to be compared.
	seen uint64
	// leaving are no longer covered, but the stream has not yet passed the revision
	// at which that was found out.
	leaving map[string]Departure
	// listed are the revisions of the lists that new namespaces began with: up to
	// there their frames bring nothing new.
	listed map[string]uint64
	// skipped are those of them whose frames may tell of states that such a list was
	// ahead of, with the revision from which on they would have been told.
	skipped map[string]uint64
	// leftOut are frames of namespaces that were not covered.
	leftOut leftOut
	// declared is the last gap that was made by namespaces that came to match.
	declared event.GapInfo
	// began is the revision at which the target began with a mark, 0 if it did not;
	// beganWith are the namespaces that matched then.
	began     uint64
	beganWith map[string]struct{}
	// ahead is a revision that the log does not reach beyond at the start of the target:
	// it may be behind the cursor.
	ahead uint64
	// Apart: the Namespaces are in another store, so that their revisions and those of
	// frames do not compare. resumed: it continues from a checkpoint.
	Apart   bool
	resumed bool
	// turning are those of which the log may hold more or less than what at says;
	// candidates those of which a process before this one said so.
	turning, candidates map[string]struct{}
}

// Departure is how a namespace stops to be covered. Until is the revision that the
// stream has to pass, 0 if it is not known yet; Cause is that of the Namespace.
// Announced is the revision up to which an arrival had announced it before it was broken off.
// MissingAfter is a revision after which the log may lack events of some of its objects, while it
// has those of others; 0 if it lacks none.
type Departure struct{ Until, Cause, Announced, MissingAfter uint64 }

// NewCoverage makes the coverage of a target that has not begun.
func NewCoverage(rule Rule, n *Namespaces) Coverage {
	return Coverage{rule: rule, Filter: NewFilter(rule), Namespaces: n}
}

// Leave ends the following of the Namespaces.
func (c *Coverage) Leave() {
	if c.Changed != nil {
		c.Namespaces.leave(c.Changed)
	}
}

// Trouble says why the Namespaces are not followed at the moment, nil if they are or
// need not be.
func (c *Coverage) Trouble() error {
	if c.Changed == nil {
		return nil
	}
	return c.Namespaces.trouble()
}

// publish shows the filter what is covered now.
func (c *Coverage) publish() {
	c.Filter.labelled.Store(&labelled{covered: c.covered, leaving: maps.Clone(c.leaving)})
}

// Leaving returns how a namespace leaves, false if it does not.
func (c *Coverage) Leaving(namespace string) (Departure, bool) {
	d, ok := c.leaving[namespace]
	return d, ok
}

// At returns the revision of the Namespaces at which exactly those matched that are covered.
func (c *Coverage) At() uint64 { return c.at }

// MissingUpTo returns the range in which events of a namespace that leaves may be missing, given
// something of it at revision rv; false if there is none. The caller declares it: a later range begins behind it.
func (c *Coverage) MissingUpTo(namespace string, rv uint64) (after, to uint64, missing bool) {
	d := c.leaving[namespace]
	after, to = d.MissingAfter, max(rv, d.Until)
	if after == 0 || rv <= after {
		return 0, 0, false
	}
	d.MissingAfter = to
	c.leaving[namespace] = d
	return after, to, true
}

// Leaves reports whether any namespace leaves.
func (c *Coverage) Leaves() bool { return len(c.leaving) > 0 }

// ListedAt returns the revision of the list that a namespace began with, 0 if the stream has
// passed it.
func (c *Coverage) ListedAt(namespace string) uint64 { return c.listed[namespace] }

// Cover covers a namespace. It returns the revision up to which an arrival had announced
// it before it was broken off.
func (c *Coverage) Cover(namespace string) (told uint64) {
	told = c.leaving[namespace].Announced
	delete(c.leaving, namespace)
	c.covered = c.covered.with(namespace)
	c.publish()
	return told
}

// Uncover covers a namespace no longer.
func (c *Coverage) Uncover(namespace string, d Departure) {
	c.covered = c.covered.without(namespace)
	c.leaving[namespace] = d
	c.publish()
}

// LeaveOut notes a frame of a namespace that is not covered.
func (c *Coverage) LeaveOut(f LeftFrame) {
	if c.Known && c.Filter.Named(f.Namespace) {
		c.leftOut.add(f)
	}
}

// LeftOutSince says that frames of a namespace are left out after a revision.
func (c *Coverage) LeftOutSince(namespace string, rv uint64) { c.leftOut.begin(namespace, rv) }

// ForgetLeftOut says that the frames which were left out up to a revision are not known.
func (c *Coverage) ForgetLeftOut(since uint64) { c.leftOut.forget(since) }

// Sure says that the stream and the log agree about a namespace.
func (c *Coverage) Sure(namespace string) { delete(c.candidates, namespace) }

// Skips reports whether a frame is of a state that the list of its namespace did not hold, and
// since when such states may be missing. It does so once for each namespace.
func (c *Coverage) Skips(f LeftFrame, explained func([]LeftFrame) bool) (after uint64, skips bool) {
	after, ok := c.skipped[f.Namespace]
	if !ok || f.RV <= after || explained([]LeftFrame{f}) {
		return 0, false
	}
	delete(c.skipped, f.Namespace)
	return after, true
}

// Pass notes that the stream has brought everything up to rv. It returns the namespaces that
// have left with that; [Coverage.Left] takes note of each. Idle: there was nothing to wait for.
func (c *Coverage) Pass(rv uint64) (left map[string]Departure, idle bool) {
	if len(c.leaving) == 0 && len(c.listed) == 0 {
		return nil, true
	}
	maps.DeleteFunc(c.listed, func(namespace string, at uint64) bool {
		if at <= rv {
			delete(c.skipped, namespace)
		}
		return at <= rv
	})
	left = maps.Clone(c.leaving)
	maps.DeleteFunc(left, func(_ string, d Departure) bool { return d.Until == 0 || rv < d.Until })
	return left, false
}

// Left notes that the objects of a namespace have left, at revision rv.
func (c *Coverage) Left(namespace string, rv uint64) {
	delete(c.leaving, namespace)
	c.leftOut.begin(namespace, rv)
	c.publish()
}

// Declares notes a gap that namespaces make which came to match. It returns false if the last
// one contains it.
func (c *Coverage) Declares(g event.GapInfo) bool {
	if c.declared.From <= g.From && g.To <= c.declared.To {
		return false
	}
	c.declared = g
	return true
}

// Look returns how the namespaces that should be covered differ from those that are, and
// their names in order. It returns nil if there has been no list yet, and why.
func (c *Coverage) Look() (now *Viewed, arriving, departing []string, err error) {
	if now, err = c.Namespaces.look(c.rule, c.covered, c.seen); err != nil || now == nil {
		return nil, nil, nil, err
	}
	departs := maps.Clone(now.departing)
	for name, d := range c.leaving {
		if d.Until == 0 && !now.matching.has(name) {
			departs[name] = struct{}{} // it was broken off
		}
	}
	return now, slices.Sorted(maps.Keys(now.Arriving)), slices.Sorted(maps.Keys(departs)), nil
}

// Turn notes the namespaces that begin and stop to be covered. Until [Coverage.Turned] the log
// may hold more or less of them than the mark says.
func (c *Coverage) Turn(names []string) {
	for _, name := range names {
		c.turning[name] = struct{}{}
	}
}

// Turned notes that all of them did. It returns how many namespaces are covered.
func (c *Coverage) Turned(now *Viewed) int {
	clear(c.turning)
	c.moveTo(now)
	if c.covered.equals(&now.matching) {
		c.covered = now.matching // targets share it
		c.publish()
	}
	return c.covered.len()
}

// Settle notes that the coverage is in line with a view. It returns whether the mark changes.
func (c *Coverage) Settle(now *Viewed) (moved bool) {
	c.Due, c.resumed = false, false
	c.seen = now.seq
	moved = c.at != now.at
	c.moveTo(now)
	if !c.Apart {
		c.leftOut.prune(c.passed)
	}
	return moved
}

// moveTo notes the revision of a view.
func (c *Coverage) moveTo(now *Viewed) {
	if c.at = now.at; c.at != c.stale {
		c.passed, c.stale = c.at, 0
	}
}

// Forget lets go of the revisions that it compares with frames: those that come are of
// another history.
func (c *Coverage) Forget() {
	clear(c.listed)
	clear(c.skipped)
	c.leftOut.forget(0)
	c.began, c.ahead, c.declared = 0, 0, event.GapInfo{}
	c.passed, c.stale = 0, c.Namespaces.revisionRead()
	for namespace, d := range c.leaving {
		d.Until, d.MissingAfter = 0, 0 // a gap declares the rollback
		c.leaving[namespace] = d
	}
}
