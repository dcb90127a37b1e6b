package chaos

import (
	"slices"
	"time"
)

// stream checks the deliveries in their order: I3, I5, I6, I11, I12 and I14.
func (c *sinkCheck) stream(limits Limits) {
	holders := make(map[string]*Delivery) // by key: who holds the name
	repeats := 0
	for i := range c.sink.Deliveries {
		d := &c.sink.Deliveries[i]
		if d.Canary {
			c.fail("I11", d.UID, d.RV, "%s holds the value of a Secret", d.ID)
		}
		if d.Op == opLost {
			c.lose(holders)
			continue
		}
		if !d.control() {
			c.lasts[d.key()] = d
			c.alive[d.UID], c.latest[d.UID] = d, i
			delete(c.swept, d.UID)
		}
		if c.repeated(d) && !c.endsAnew(d) {
			c.same(d, c.seen[d.ID])
			switch repeats++; {
			case !c.sink.Unique:
			case c.lossFollows(d.Target, i):
				c.excuses["repeated after a loss of the journal"]++
			default:
				c.fail("I6", d.UID, d.RV, "id %s is there twice", d.ID)
			}
			continue
		}
		if d.control() {
			c.bound(d, i, holders)
			continue
		}
		if !c.redelivered(d) {
			c.order(d, holders)
			c.passes(d, c.heads[d.UID])
			c.heads[d.UID] = d
		}
		c.authentic(d)
		c.byUID[d.UID] = append(c.byUID[d.UID], d)
	}
	if !c.sink.Unique && repeats > limits.Repeats {
		c.fail("I6", "", 0, "%d of %d events are repeats, the limit is %d", repeats, len(c.sink.Deliveries), limits.Repeats)
	}
}

// same is I6 for a repeat: a consumer may take either of the two. A change that another replica has seen again
// has another time, and what a comparison has found again may have the revision of the comparison.
func (c *sinkCheck) same(d, first *Delivery) {
	one, other := *d, *first
	one.At, one.End = other.At, other.End
	if one != other && !d.Replay && !first.Replay {
		c.fail("I6", d.UID, d.RV, "%s came again with other content: %+v, before %+v", d.ID, *d, *first)
	}
}

// endsAnew reports whether a deletion with an id that came before is another one: the object is alive by what came
// since the journal lost events. A restore of etcd had brought it back, and the journal has lost the epoch of that.
func (c *sinkCheck) endsAnew(d *Delivery) bool {
	head := c.heads[d.UID]
	if d.Op != opDeleted || !c.lossy[d.Target] || head == nil || head.ends() {
		return false
	}
	c.seen[d.ID] = d
	c.excuses["deleted again after a loss of the journal"]++
	return true
}

// repeats counts the deliveries whose id came before.
func repeats(deliveries []Delivery) int {
	seen := make(map[string]bool, len(deliveries))
	n := 0
	for i := range deliveries {
		if seen[deliveries[i].ID] {
			n++
		}
		seen[deliveries[i].ID] = true
	}
	return n
}

// order holds a first delivery against what came before of the same object (I3,
// I12, I14) and under the same name (I3).
func (c *sinkCheck) order(d *Delivery, holders map[string]*Delivery) { //nolint:gocognit // one rule after the other
	if prev := c.heads[d.UID]; prev != nil {
		switch {
		case d.Epoch < prev.Epoch:
			c.fail("I3", d.UID, d.RV, "%s came after %s of a later epoch", d.ID, prev.ID)
		case d.Epoch > prev.Epoch: // revisions do not compare
		case prev.Op == opDeleted:
			c.fail("I3", d.UID, d.RV, "%s came after the deletion of the object", d.ID)
			return
		case prev.Op == opLeft != (d.Op == opEntered) && d.Op != opSnapshot && !c.dropped[d.UID]:
			c.fail("I3", d.UID, d.RV, "%s came after %s", d.ID, prev.ID)
		case d.RV == prev.RV && d.Op == opSnapshot && d.Run > 0: // announced again
		case d.RV == prev.RV && (d.Op == opLeft || d.Op == opEntered): // as its Namespace changed
		case d.RV <= prev.RV:
			c.fail("I3", d.UID, d.RV, "%s at revision %d came after revision %d", d.ID, d.RV, prev.RV)
		}
		// What a restore of etcd brought back to life begins a new chain.
		if revived := d.Epoch > prev.Epoch && prev.ends(); !c.sink.Unchained && !revived {
			c.chain(d, prev)
		}
	} else if !c.sink.Unchained && !c.lossy[d.Target] && (d.Ordinal != 1 || d.PrevRV != 0) {
		c.skipped(d, 0)
	}
	if holder := holders[d.key()]; holder != nil && holder.UID != d.UID && !d.ends() {
		c.fail("I3", d.UID, d.RV, "%s came while uid %s held the name, whose deletion was not delivered", d.ID, holder.UID)
	}
	if d.ends() {
		if holder := holders[d.key()]; holder != nil && holder.UID == d.UID {
			delete(holders, d.key())
		}
	} else {
		holders[d.key()] = d
	}
}

// chain: ordinal and previous revision say that nothing is missing between the
// two, or what is missing is excused.
func (c *sinkCheck) chain(d, prev *Delivery) {
	switch {
	case d.Ordinal <= prev.Ordinal && c.fellBack(d):
		c.excuses["changes that a power loss took from the log"]++
	case d.Ordinal == prev.Ordinal:
		c.fail("I12", d.UID, d.RV, "%s and %s both have ordinal %d: two writers", prev.ID, d.ID, d.Ordinal)
	case d.Ordinal < prev.Ordinal:
		c.fail("I14", d.UID, d.RV, "%s has ordinal %d after %d", d.ID, d.Ordinal, prev.Ordinal)
	case d.Ordinal > prev.Ordinal+1:
		c.skipped(d, prev.Ordinal)
	case d.PrevRV != prev.RV:
		c.fail("I14", d.UID, d.RV, "%s says that revision %d came before, but %d did", d.ID, d.PrevRV, prev.RV)
	}
}

// fellBack reports whether the log has lost changes of an object that the sink has, and no row: the
// chain continues behind an earlier event, in a declared gap, and all since then were live changes.
func (c *sinkCheck) fellBack(d *Delivery) bool {
	declared := func(g *Delivery) bool { return g.FromRV < d.RV && d.RV <= g.ToRV }
	if !d.Replay || !slices.ContainsFunc(c.gaps[d.Target], declared) {
		return false
	}
	for _, before := range slices.Backward(c.byUID[d.UID]) {
		if before.Ordinal == d.Ordinal-1 {
			return before.RV == d.PrevRV
		}
		if before.Op != opModified || before.Replay {
			return false
		}
	}
	return false
}

// skipped: the ordinals say that events were journaled that did not arrive.
func (c *sinkCheck) skipped(d *Delivery, after uint64) {
	if c.lossy[d.Target] { // the consumer had not read all that is lost
		return
	}
	missing := d.Ordinal - after - 1
	allowed := c.trimmed
	for id := range c.sink.Refused {
		if uid := d.UID; len(id) > len(uid) && id[:len(uid)] == uid {
			allowed++
		}
	}
	if d.Ordinal == 0 || missing > allowed {
		c.fail("I14", d.UID, d.RV, "%s has ordinal %d and previous revision %d after ordinal %d; %d missing events are excused", d.ID, d.Ordinal, d.PrevRV, after, allowed)
	}
}

// authentic is I5: etcd held what was delivered.
func (c *sinkCheck) authentic(d *Delivery) {
	o := c.truth.Objects[d.UID]
	if o == nil {
		c.fail("I5", d.UID, d.RV, "%s: etcd never held that uid", d.ID)
		return
	}
	if o.key() != d.key() {
		c.fail("I5", d.UID, d.RV, "%s is of %s, but the uid is that of %s", d.ID, d.key(), o.key())
		return
	}
	if d.Stranger != "" {
		c.fail("I5", d.UID, d.RV, "%s holds another object, %s", d.ID, d.Stranger)
		return
	}
	if d.HasObject && d.Op != opDeleted && d.BodyRV != d.RV {
		c.fail("I5", d.UID, d.RV, "%s: the object is of revision %d", d.ID, d.BodyRV)
	}
	if d.Op == opDeleted {
		c.authenticEnd(o, d)
		return
	}
	found := false
	for _, r := range o.Revisions {
		if d.Op == opLeft && d.Replay && !d.HasObject && r.RV == d.RV && r.Deleted && r.Undone && c.truth.Rules[o.Target].labels != nil {
			return // only the present could tell, and there the object exists
		}
		if r.RV != d.RV || r.Deleted {
			continue
		}
		found = true
		if !d.HasObject || r.Hash == d.Hash {
			return
		}
	}
	if found {
		c.fail("I5", d.UID, d.RV, "%s: the content is not that of etcd at revision %d", d.ID, d.RV)
	} else {
		c.fail("I5", d.UID, d.RV, "%s: the object has no revision %d", d.ID, d.RV)
	}
}

// readLag is how much later than informd the checker may learn of a change.
const readLag = 10 * time.Second

// authenticEnd: a deletion seen live names the revision of the end, one found by
// comparison a later one, or that at which an object had left the selection that was
// deleted since; a last state that is said to be final is the last.
func (c *sinkCheck) authenticEnd(o *Object, d *Delivery) {
	undone := slices.ContainsFunc(o.Revisions, func(r Revision) bool { return r.Undone })
	if _, exists := o.last(); !exists || undone && d.Epoch > 0 && d.Replay {
		return // taken back by a restore
	}
	// After a restore a revision's number may come again: any of them will do.
	there, same := false, false
	for _, r := range o.Revisions {
		known := !r.Seen.After(d.At.Add(readLag)) // the deletion, when informd announced it
		if r.Deleted && (r.RV == d.RV || d.Replay && (r.RV <= d.RV || known && c.leftAt(o, d.RV))) {
			there, same = true, same || r.Hash == d.Hash
		}
	}
	switch {
	case !there:
		c.fail("I5", d.UID, d.RV, "%s at revision %d: etcd has no such deletion", d.ID, d.RV)
	case d.HasObject && d.Final && !same:
		c.fail("I5", d.UID, d.RV, "%s: the last state is not that of etcd", d.ID)
	}
}
