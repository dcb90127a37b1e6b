package chaos

import (
	"maps"
	"slices"
	"strings"
)

// wanted returns since when a consumer must have had the revision at an index of an object, once
// for each time that the object was selected; nil if it is no event.
func (c *sinkCheck) wanted(o *Object, i int) []uint64 {
	r, rule := o.Revisions[i], c.truth.Rules[o.Target]
	switch {
	case r.Undone || rule.spaces == nil && r.Matches, rule.plain():
		return []uint64{r.RV}
	case !r.Matches:
		return nil
	}
	var all []uint64
	until := o.after(i)
	for _, s := range c.spaces[o.Namespace] {
		from := max(s.from, r.RV)
		if s.from >= until || r.RV >= s.to || from > c.truth.Settled {
			continue
		}
		if c.noticed[o.Target][o.Namespace][s] {
			all = append(all, from)
		} else {
			c.excuses["namespace matched unnoticed"]++
		}
	}
	return all
}

// notice finds out which times that namespaces matched informd has noticed: it has not if a
// namespace stopped to match before informd looked. Of one that it has noticed it tells all, or
// declares a gap.
func (c *sinkCheck) notice() { //nolint:gocognit // one case after the other, in the order of the stream
	for i := range c.sink.Deliveries {
		d := &c.sink.Deliveries[i]
		if c.truth.Rules[d.Target].spaces == nil || d.control() || d.Run > 0 {
			continue
		}
		for _, s := range c.spaces[d.Namespace] {
			at := d.RV
			if d.Op == opEntered {
				// Of a namespace alone, another cause than its own change says that only a list has shown it.
				if at = d.Cause; c.truth.Rules[d.Target].labels == nil && at != s.from {
					continue
				}
			}
			if d.Op == opLeft && d.Cause == s.to || (d.Op == opEntered || d.Op == opAdded) && s.from <= at && at < s.to {
				c.notices(d.Target, d.Namespace, s)
			}
		}
	}
	for target, rule := range c.truth.Rules {
		if rule.spaces == nil {
			continue
		}
		for name, spaces := range c.spaces {
			for _, s := range spaces {
				if s.to > c.truth.Settled {
					c.notices(target, name, s)
				}
			}
		}
	}
}

func (c *sinkCheck) notices(target, namespace string, s space) {
	of := c.noticed[target]
	if of == nil {
		of = make(map[string]map[space]bool)
		c.noticed[target] = of
	}
	if of[namespace] == nil {
		of[namespace] = make(map[space]bool)
	}
	of[namespace][s] = true
}

// selected reports whether an object is selected at the end, in the state r.
func (c *sinkCheck) selected(o *Object, r Revision) bool { return c.selectedAt(o, r, c.truth.Settled) }

func (c *sinkCheck) selectedAt(o *Object, r Revision, rv uint64) bool {
	rule := c.truth.Rules[o.Target]
	return rule.plain() || (rule.labels == nil || r.Matches) && (rule.spaces == nil || matchesAt(c.spaces[o.Namespace], rv))
}

// matchedSince reports whether the namespace of a delivery matched from then on, up to rv. If it stopped to match
// and matches again, the object has to enter, and informd may notice that after rv.
func (c *sinkCheck) matchedSince(d *Delivery, rv uint64) bool {
	return c.truth.Rules[d.Target].spaces == nil || slices.ContainsFunc(c.spaces[d.Namespace], func(s space) bool {
		return s.from <= max(d.RV, d.Cause) && s.from <= rv && rv < s.to
	})
}

// superseded reports whether, up to rv, a state that a consumer had to have since a revision was
// followed by another one, or no longer selected.
func (c *sinkCheck) superseded(o *Object, r Revision, since, rv uint64) bool {
	if o.supersededBy(r, rv) {
		return true
	}
	return c.truth.Rules[o.Target].spaces != nil && slices.ContainsFunc(c.spaces[o.Namespace], func(s space) bool {
		return since < s.to && s.to <= rv
	})
}

// withheld marks the revisions of an object, by index, that a change filter leaves out: those
// that are as the state before them, or as the last event.
func (c *sinkCheck) withheld(o *Object, delivered map[uint64]*Delivery) map[int]bool {
	if !c.truth.Rules[o.Target].filters {
		return nil
	}
	all := make(map[int]bool)
	known := false // informd knew the state before
	for i, r := range o.Revisions {
		if delivered[r.RV] != nil {
			known = true
			continue
		}
		var last *Delivery
		for rv, d := range delivered {
			if rv < r.RV && (last == nil || rv > last.RV) && !c.undone(d) {
				last = d
			}
		}
		before, ok := o.before(i)
		switch {
		case r.Deleted || r.Undone:
			known = false
		case ok && known && !before.Deleted && before.Matches && before.Gate == r.Gate, last != nil && last.Gate == r.Gate:
			all[i], known = true, true
		default:
			known = c.reachedJournal(o, r)
		}
	}
	return all
}

// reachedJournal: that the sink lacks the revision is not because informd lacked it.
func (c *sinkCheck) reachedJournal(o *Object, r Revision) bool {
	return c.refusedState(o.UID, r.RV) || c.trimmed > 0 || c.inLoss(o, r) || c.truth.Rejected[rejected{o.UID, r.RV}]
}

// departures is I2 for what stops to match a label selector: who has it is told that it left.
func (c *sinkCheck) departures(o *Object, delivered map[uint64]*Delivery) {
	if c.truth.Rules[o.Target].labels == nil {
		return
	}
	for i, r := range o.Revisions {
		before, ok := o.before(i)
		if r.Undone || r.Deleted || r.Matches || !ok || !before.Matches || delivered[before.RV] == nil || !c.truth.due(r) {
			continue
		}
		until := endless // when it matches again
		for _, later := range o.Revisions[i+1:] {
			if !later.Undone && later.Matches {
				until = later.RV
				break
			}
		}
		told := slices.ContainsFunc(c.byUID[o.UID], func(d *Delivery) bool {
			at := max(d.RV, d.Cause)
			return d.ends() && r.RV <= at && at < until
		})
		if !told && !c.refusedEnd(o.UID) && !c.excused(o, r, r.RV) {
			c.fail("I2", o.UID, r.RV, "%s stopped to match at revision %d, but that was never delivered, and no gap says so", o.key(), r.RV)
		}
	}
}

// leftAt reports whether an object stopped to match a label selector at a revision.
func (c *sinkCheck) leftAt(o *Object, rv uint64) bool {
	for i, r := range o.Revisions {
		if before, ok := o.before(i); r.RV == rv && c.truth.Rules[o.Target].labels != nil && ok && before.Matches && !r.Matches {
			return true
		}
	}
	return false
}

// passes is I20: what is delivered of an entry with selectors or a change filter is what these
// let through. prev is what came before of the object.
func (c *sinkCheck) passes(d, prev *Delivery) {
	rule := c.truth.Rules[d.Target]
	if !rule.selects() && (d.Op == opEntered || d.Op == opLeft) {
		c.fail("I20", d.UID, d.RV, "%s: the entry selects all", d.ID)
	}
	o := c.truth.Objects[d.UID]
	if o == nil || d.Epoch > 0 || d.Op == opDeleted {
		return
	}
	if rule.labels != nil {
		c.passesLabels(o, d)
	}
	caused := (d.Op == opEntered || d.Op == opLeft) && rule.spaces != nil && d.Cause < c.restored
	if caused && matchesAt(c.spaces[d.Namespace], d.Cause) != (d.Op == opEntered) {
		c.fail("I20", d.UID, d.RV, "%s: that is not how the namespace was labelled at revision %d", d.ID, d.Cause)
	}
	unchanged := prev != nil && !prev.ends() && d.Ordinal == prev.Ordinal+1 && d.Epoch == prev.Epoch && d.Gate == prev.Gate
	if rule.filters && d.Op == opModified && d.Run == 0 && unchanged && !c.lossy[d.Target] && !c.open[d.Target] {
		c.fail("I20", d.UID, d.RV, "%s changes nothing that the change filter names since %s", d.ID, prev.ID)
	}
}

// passesLabels: an event is of a state that matches, and says how it came to match. Of an object whose
// state before is in a gap, nobody may know that it existed: etcd has compacted it.
func (c *sinkCheck) passesLabels(o *Object, d *Delivery) {
	i := slices.IndexFunc(o.Revisions, func(r Revision) bool { return r.RV == d.RV && !r.Undone })
	if i < 0 || o.Revisions[i].Deleted {
		return // I5
	}
	before, ok := o.before(i)
	switch r := o.Revisions[i]; {
	case r.Matches == d.ends():
		c.fail("I20", d.UID, d.RV, "%s: the state at revision %d matches the selector: %t", d.ID, d.RV, r.Matches)
	case d.Replay || d.Run > 0:
	case d.Op == opEntered && (!ok || before.Matches), d.Op == opAdded && ok && !c.inGap(o, before, before.RV), d.Op == opModified && ok && !before.Matches:
		c.fail("I20", d.UID, d.RV, "%s: the object existed before: %t, and matched: %t", d.ID, ok, ok && before.Matches)
	}
}

// unselect notes that Namespaces have changed while informd could not follow: what they no
// longer select may have no end.
func (c *sinkCheck) unselect(gap *Delivery, holders map[string]*Delivery) {
	for uid, last := range c.alive {
		if last.Target != gap.Target || last.ends() || matchesAt(c.spaces[last.Namespace], gap.ToRV) {
			continue
		}
		c.swept[uid], c.dropped[uid] = true, true
		if holder := holders[last.key()]; holder != nil && holder.UID == uid {
			delete(holders, last.key())
		}
	}
}

// refusal is what the ids of refused events of an object say.
type refusal struct {
	states map[string]bool // revisions, as text
	end    bool
}

func refusalsOf(refused map[string]bool) map[string]refusal {
	all := make(map[string]refusal)
	for id := range maps.Keys(refused) {
		parts := strings.Split(id, ":")
		if len(parts) < 2 {
			continue
		}
		x, ok := all[parts[0]]
		if !ok {
			x.states = make(map[string]bool)
		}
		if parts[1] == opDeleted || len(parts) > 2 && parts[2] == opLeft {
			x.end = true
		} else {
			x.states[parts[1]] = true
		}
		all[parts[0]] = x
	}
	return all
}
