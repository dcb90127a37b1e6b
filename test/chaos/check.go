package chaos

import (
	"fmt"
	"maps"
	"slices"
)

// Limits are what the checker takes for granted.
type Limits struct {
	// Repeats is how many events a sink without deduplication may hold twice.
	Repeats int
}

// check holds one sink against the truth. The violations come in the order of
// the stream, then in the order of etcd.
func check(truth *Truth, sink *Sink, limits Limits) verdict {
	c := newSinkCheck(truth, sink)
	c.notice()
	c.stream(limits)
	for _, o := range truth.sorted() {
		if !sink.Targets[o.Target] {
			continue
		}
		c.coverage(o)
		c.deletion(o)
	}
	c.finalStates()
	return verdict{violations: c.violations, excuses: c.excuses, dropped: c.dropped}
}

// verdict is what a check found out.
type verdict struct {
	violations []Violation
	// excuses counts the revisions that are missing and may be, by reason.
	excuses map[string]int
	// dropped are the UIDs that a changed selection has dropped without an end.
	dropped map[string]bool
}

// sinkCheck holds one sink against the truth.
type sinkCheck struct {
	truth      *Truth
	sink       *Sink
	violations []Violation

	seen   map[string]*Delivery   // the first one by id
	heads  map[string]*Delivery   // by UID: the last one of the chain of ordinals
	alive  map[string]*Delivery   // by UID: the last delivery
	latest map[string]int         // and its index
	begun  map[string]int         // by target and run: the index of the begin
	swept  map[string]bool        // UIDs that a snapshot after a loss did not have
	lossy  map[string]bool        // targets of which the destination or the journal lost events
	losses map[string][]loss      // by target: the first snapshot after each loss
	resets map[int]bool           // indexes from which on the journal's loss shows
	ends   map[string][]end       // of snapshots, by target
	byUID  map[string][]*Delivery // first deliveries, in order
	lasts  map[string]*Delivery   // the last delivery by key, repeats included
	gaps   map[string][]*Delivery // by target
	synced map[string][]uint64    // revisions by target, in order

	// trimmed is how many events, of whatever target, the sink was told that it
	// will never get; left is how many of them may still be missing.
	trimmed, left uint64

	// excuses counts what is missing and may be, by reason.
	excuses map[string]int

	spaces  map[string][]space                   // when namespaces matched
	noticed map[string]map[string]map[space]bool // by target and namespace: those that informd noticed
	open    map[string]bool                      // targets of which a snapshot has begun and not ended
	// restored is the first revision that a restore took back: from there on the Namespaces of
	// two histories do not compare.
	restored uint64
	refused  map[string]refusal // by UID
	dropped  map[string]bool    // UIDs that a changed selection has dropped without an end
}

func newSinkCheck(truth *Truth, sink *Sink) *sinkCheck {
	c := &sinkCheck{
		truth: truth, sink: sink,
		seen: make(map[string]*Delivery), byUID: make(map[string][]*Delivery), lasts: make(map[string]*Delivery),
		gaps: make(map[string][]*Delivery), synced: make(map[string][]uint64), excuses: make(map[string]int),
		heads: make(map[string]*Delivery), alive: make(map[string]*Delivery), latest: make(map[string]int), begun: make(map[string]int),
		swept: make(map[string]bool), losses: make(map[string][]loss), lossy: make(map[string]bool), resets: make(map[int]bool), ends: make(map[string][]end),
		spaces: spacesOf(truth), noticed: make(map[string]map[string]map[space]bool), open: make(map[string]bool),
		restored: firstUndone(truth), refused: refusalsOf(sink.Refused), dropped: make(map[string]bool),
	}
	// Gaps excuse what comes before them, too, so they are read first.
	lost := make(map[string]bool)     // targets without a snapshot since the last loss
	open := make(map[string][]int)    // by target: the begins of the first list that is open; a restart begins another
	journal := make(map[string]bool)  // targets of which the journal has declared a loss since the last snapshot
	newest := make(map[string]uint64) // by UID: the newest state since the last loss
	for i := range sink.Deliveries {
		switch d := &sink.Deliveries[i]; {
		case d.Op == opLost:
			clear(newest)
			for target := range sink.Targets {
				lost[target] = true
			}
		case c.repeated(d):
		case d.Op == opGap && d.Reason == reasonTrimmed:
			c.trimmed += d.Trimmed
		case d.Op == opGap:
			c.gaps[d.Target] = append(c.gaps[d.Target], d)
			if d.Reason != reasonJournal {
				continue
			}
			journal[d.Target] = true
			for _, begin := range open[d.Target] {
				c.resets[begin] = true // it is declared at the end of the snapshot
			}
			c.resets[i] = len(open[d.Target]) == 0
		case d.Op == opBegin && !d.Replay:
			open[d.Target] = append(open[d.Target], i)
		case d.Op == opSynced:
			if !d.Replay { // a re-snapshot may come while the first list is open
				c.ends[d.Target] = append(c.ends[d.Target], end{i, journal[d.Target]})
				delete(journal, d.Target)
				delete(open, d.Target)
			}
			c.synced[d.Target] = append(c.synced[d.Target], d.RV)
			if lost[d.Target] {
				c.losses[d.Target] = append(c.losses[d.Target], loss{d.RV, maps.Clone(newest)})
				delete(lost, d.Target)
			}
		default:
			newest[d.UID] = max(newest[d.UID], d.RV)
		}
	}
	clear(c.seen)
	c.left = c.trimmed
	return c
}

func (c *sinkCheck) repeated(d *Delivery) bool {
	if c.seen[d.ID] != nil {
		return true
	}
	c.seen[d.ID] = d
	return false
}

func (c *sinkCheck) fail(invariant, uid string, rv uint64, format string, args ...any) {
	c.violations = append(c.violations, Violation{
		Invariant: invariant, Sink: c.sink.Name, UID: uid, RV: rv, Text: fmt.Sprintf(format, args...),
	})
}

// coverage is I2: every revision of the object is delivered or excused.
func (c *sinkCheck) coverage(o *Object) {
	delivered := make(map[uint64]*Delivery)
	for _, d := range c.byUID[o.UID] {
		if !d.ends() {
			delivered[d.RV] = d
		}
	}
	withheld := c.withheld(o, delivered)
	for i, r := range o.Revisions {
		if r.Deleted || delivered[r.RV] != nil || !c.truth.due(r) {
			continue
		}
		if withheld[i] {
			c.excuses["unchanged"]++
			continue
		}
		for _, since := range c.wanted(o, i) {
			if !c.excused(o, r, since) {
				c.fail("I2", o.UID, r.RV, "%s at revision %d, wanted since %d, was never delivered, and no gap says so", o.key(), r.RV, since)
			}
		}
	}
	c.departures(o, delivered)
}

// excused reports whether a revision may be missing that a consumer had to have since a revision:
// its own, or that at which its Namespace came to match.
func (c *sinkCheck) excused(o *Object, r Revision, since uint64) bool {
	switch {
	case c.refusedState(o.UID, r.RV):
		c.excuses["refused"]++
	case c.truth.Rejected[rejected{o.UID, r.RV}]:
		c.excuses["dead letter of the source"]++
	case r.Undone: // whoever had not seen it yet never could
		c.excuses["undone"]++
	case c.beforeSnapshot(o, r, since):
		c.excuses["before the snapshot"]++
	case c.inGap(o, r, since):
		c.excuses["gap"]++
	case c.inLoss(o, r):
		c.excuses["lost by the destination"]++
	case c.left > 0 && c.superseded(o, r, since, c.truth.Head):
		c.left--
		c.excuses["trimmed"]++
	default:
		return false
	}
	return true
}

// refusedState reports whether the destination refused an event with that state for good.
func (c *sinkCheck) refusedState(uid string, rv uint64) bool {
	return c.refused[uid].states[fmt.Sprint(rv)]
}

// refusedEnd reports whether it refused a deletion of the object, or that it left.
func (c *sinkCheck) refusedEnd(uid string) bool { return c.refused[uid].end }

// beforeSnapshot: of what came before the first list after the target began to be
// served, the list has the last states.
func (c *sinkCheck) beforeSnapshot(o *Object, r Revision, since uint64) bool {
	if c.sink.Base > 0 {
		return r.RV <= c.sink.Base && o.supersededBy(r, c.sink.Base)
	}
	served := c.truth.servedSince(o.Target, r.RV)
	for _, rv := range c.synced[o.Target] {
		if rv >= served {
			return since <= rv && c.superseded(o, r, since, rv)
		}
	}
	return false
}

// inGap: a gap was declared that leaves room for what is missing.
func (c *sinkCheck) inGap(o *Object, r Revision, since uint64) bool {
	return slices.ContainsFunc(c.gaps[o.Target], func(g *Delivery) bool {
		switch {
		case g.Reason == reasonRollback:
			// Its ends are of different histories: of the old one all behind it may be
			// missing, of the new one all up to the list.
			return (r.Epoch < g.Epoch && since > g.FromRV || r.Epoch > 0 && since <= g.ToRV) && c.superseded(o, r, since, c.truth.Head)
		case g.FromRV >= since || since > g.ToRV:
			return false
		case g.Recovered == recoveredKnown:
			return o.bornAndDeadIn(g.FromRV, g.ToRV)
		default:
			// The last state is I1's, a deletion I4's.
			return c.superseded(o, r, since, c.truth.Head)
		}
	})
}

// deletion is I4: what was announced and is gone has a deletion.
func (c *sinkCheck) deletion(o *Object) {
	last, exists := o.settled(c.truth)
	if !exists && slices.ContainsFunc(o.Revisions, func(r Revision) bool { return !r.Undone }) {
		return // it began too late to count
	}
	announced := len(c.byUID[o.UID]) > 0
	if !announced || exists && !last.Deleted || c.refusedEnd(o.UID) {
		return
	}
	ended := c.swept[o.UID] || c.alive[o.UID].ends() || slices.ContainsFunc(c.byUID[o.UID], func(d *Delivery) bool { return d.Op == opDeleted })
	if !ended {
		c.fail("I4", o.UID, last.RV, "%s was announced and is gone since revision %d, but its deletion was not delivered", o.key(), last.RV)
	}
}

// finalStates is I1: what a consumer ends with is what etcd ends with.
func (c *sinkCheck) finalStates() {
	finals := make(map[string]*Object) // by key: the object that lives, else any
	for _, o := range c.truth.sorted() {
		last, ok := o.settled(c.truth)
		if c.sink.Targets[o.Target] && (finals[o.key()] == nil || ok && !last.Deleted) {
			finals[o.key()] = o
		}
	}
	for _, o := range c.truth.sorted() {
		if finals[o.key()] != o {
			continue
		}
		c.finalState(o)
	}
}

func (c *sinkCheck) finalState(o *Object) {
	d := c.lasts[o.key()]
	r, exists := o.settled(c.truth)
	switch {
	case d != nil && d.RV > c.truth.Settled && !c.undone(d):
	case !exists || r.Deleted || !c.selected(o, r):
		if d != nil && !d.ends() && !c.swept[d.UID] && !c.refusedEnd(d.UID) {
			c.fail("I1", d.UID, d.RV, "%s is gone since revision %d, or not selected, but the last delivered is %s at revision %d", o.key(), r.RV, d.Op, d.RV)
		}
	case c.refusedState(o.UID, r.RV), c.truth.Rejected[rejected{o.UID, r.RV}]:
	case d == nil:
		c.fail("I1", o.UID, r.RV, "%s exists at revision %d, but nothing was ever delivered", o.key(), r.RV)
	case d.ends() || d.UID != o.UID || d.RV != r.RV && !(c.truth.Rules[o.Target].filters && d.RV < r.RV && d.Gate == r.Gate):
		c.fail("I1", o.UID, r.RV, "%s exists at revision %d, but the last delivered is %s of uid %s at revision %d", o.key(), r.RV, d.Op, d.UID, d.RV)
	}
}

// undone reports whether a restore took back what was delivered.
func (c *sinkCheck) undone(d *Delivery) bool {
	o := c.truth.Objects[d.UID]
	return o != nil && slices.ContainsFunc(o.Revisions, func(r Revision) bool { return r.RV == d.RV && r.Undone })
}
