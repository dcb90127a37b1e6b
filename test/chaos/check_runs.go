package chaos

import (
	"fmt"
	"maps"
	"slices"
)

// redelivered reports whether a first delivery is part of what a sink was given
// once more on request: of the chain of ordinals it has a link that came before, or its run has
// no begin.
func (c *sinkCheck) redelivered(d *Delivery) bool {
	if _, begun := c.begun[runOf(d)]; d.Run > 0 && !begun && c.lossy[d.Target] {
		return true
	}
	head := c.heads[d.UID]
	return d.Run > 0 && head != nil && (d.Epoch < head.Epoch || d.Epoch == head.Epoch && d.Ordinal <= head.Ordinal)
}

// bound checks the begin and the end of a snapshot (I15): a consumer that drops what had
// no event in between drops nothing that exists.
func (c *sinkCheck) bound(d *Delivery, i int, holders map[string]*Delivery) {
	run := runOf(d)
	switch d.Op {
	case opBegin:
		c.begun[run] = i
		c.open[d.Target] = true
	case opSynced:
		c.open[d.Target] = false
	}
	if d.Op == opGap && d.Reason == reasonSelection {
		c.unselect(d, holders)
	}
	if c.resets[i] {
		c.loseJournal(d.Target, holders)
	}
	if d.Op != opSynced || d.Run == 0 {
		return
	}
	begin, ok := c.begun[run]
	if !ok {
		c.fail("I15", "", d.RV, "%s ends a snapshot without a begin of the same run", d.ID)
		return
	}
	for uid, last := range c.alive {
		if last.Target != d.Target || last.ends() || c.latest[uid] > begin || c.swept[uid] {
			continue
		}
		if o := c.truth.Objects[uid]; o != nil && c.existsAt(o, d.RV) && c.matchedSince(last, d.RV) && !c.refusedAny(uid) {
			c.fail("I15", uid, d.RV, "%s ends a snapshot that has nothing of %s, which exists at revision %d", d.ID, o.key(), d.RV)
		}
		if c.lossy[d.Target] {
			c.swept[uid] = true
			if holder := holders[last.key()]; holder != nil && holder.UID == uid {
				delete(holders, last.key())
			}
		}
	}
}

// runOf identifies a snapshot or a redelivery.
func runOf(d *Delivery) string { return fmt.Sprintf("%s %d", d.Target, d.Run) }

// end is the end of a snapshot: its index, and whether the journal has declared a loss before it.
type end struct {
	index int
	lossy bool
}

// lossFollows reports whether the next snapshot of a target declares a loss of the journal. That may
// have taken the position of the sink, and events that the sink has: they come again.
func (c *sinkCheck) lossFollows(target string, index int) bool {
	for _, e := range c.ends[target] {
		if e.index > index {
			return e.lossy
		}
	}
	return false
}

// existsAt reports whether the object exists at a revision, and is selected.
func (c *sinkCheck) existsAt(o *Object, rv uint64) bool {
	for _, r := range slices.Backward(o.Revisions) {
		if r.RV <= rv && !r.Undone {
			return !r.Deleted && c.selectedAt(o, r, rv)
		}
	}
	return false
}

// lose begins again: the destination holds nothing of what it was given.
func (c *sinkCheck) lose(holders map[string]*Delivery) {
	clear(c.seen)
	for target := range c.sink.Targets {
		c.loseJournal(target, holders)
	}
}

// loseJournal has the chains of a target's objects begin again: where the journal was
// all that knew them, nobody can continue them, nor announce deletions. The next
// snapshot lacks what was deleted.
func (c *sinkCheck) loseJournal(target string, holders map[string]*Delivery) {
	c.lossy[target] = true
	of := func(_ string, d *Delivery) bool { return d.Target == target }
	maps.DeleteFunc(holders, of)
	maps.DeleteFunc(c.heads, of)
}

// loss is a snapshot after one: its revision, and the newest states that came before its end, by UID.
type loss struct {
	rv     uint64
	newest map[string]uint64
}

// inLoss: the destination lost what it held, and the consumer had not read it all.
// The next snapshot has the last states, but of objects with a newer event that comes before its end.
func (c *sinkCheck) inLoss(o *Object, r Revision) bool {
	return slices.ContainsFunc(c.losses[o.Target], func(l loss) bool {
		return r.RV <= l.rv && (o.supersededBy(r, l.rv) || r.RV < l.newest[o.UID])
	})
}

// refusedAny reports whether the destination refused an event of the object for good.
func (c *sinkCheck) refusedAny(uid string) bool {
	_, ok := c.refused[uid]
	return ok
}
