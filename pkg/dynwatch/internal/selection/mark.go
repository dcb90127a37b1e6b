package selection

import (
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// Mark is what a checkpoint has of a coverage.
type Mark struct {
	// Hash is that of the names of the namespaces that match, 0 if the log may not be in line with them.
	Hash uint64 `json:"namespaces,omitempty"`
	// At is the last revision of the Namespaces with which the log was in line.
	At uint64 `json:"namespacesAt,omitempty"`
}

// Mark returns what a checkpoint has to say.
func (c *Coverage) Mark() Mark {
	m := Mark{At: c.agreed}
	if !c.unsure && !c.flipping && len(c.leaving)+len(c.listed) == 0 && c.replay.from == 0 {
		m.Hash = c.matching.mark()
	}
	return m
}

// Await returns the namespaces that match now. It returns nil if there has been no list yet,
// and why.
func (c *Coverage) Await(tm listwatch.Timing) (*Viewed, error) {
	if c.Changed == nil {
		c.Changed = c.Namespaces.join(tm, c.rule)
	}
	return c.Namespaces.begin(c.rule)
}

// Begin covers the namespaces that match now. The watch begins at a position, and the log may be
// ahead of it.
func (c *Coverage) Begin(now *Viewed, position, ahead uint64) {
	c.change(func() { c.matching = now.matching })
	c.seen, c.at, c.agreed = now.seq, now.at, now.at
	c.listed, c.filtered = make(map[string]uint64), make(map[string]filtered)
	c.unknown, c.ahead = position, ahead
	c.Due, c.Known = true, true
}

// Matched reports whether the namespaces that match are those of a mark.
func (c *Coverage) Matched(m Mark) bool { return c.matching.mark() == m.Hash }

// Suspect says that the log is in line with a mark, or not even with that: all objects are compared.
// Objects in other namespaces leave after that: the log has some of namespaces.
func (c *Coverage) Suspect(m Mark, namespaces map[string]struct{}) {
	c.unsure, c.agreed = true, m.At
	for name := range namespaces {
		if !c.has(name) {
			c.change(func() { c.leaving[name] = Leaving{} })
		}
	}
}

// Unsure reports whether the log may be in line with other namespaces than those that match.
func (c *Coverage) Unsure() bool { return c.unsure }

// Compared says that the log is in line with a list of all objects at revision rv.
func (c *Coverage) Compared(rv uint64) {
	c.unsure, c.unknown = false, rv
	clear(c.filtered)
	c.replay = replay{}
}

// Widen widens a gap, of a list that was compared, by the time in which namespaces may have changed.
func (c *Coverage) Widen(g *event.GapInfo) {
	switch {
	case c.Apart:
		g.From = 0
	default:
		g.From, g.To = min(g.From, c.agreed), max(g.To, c.at)
	}
}

// Forget lets go of the revisions that it compares with frames: those that come are of
// another history.
func (c *Coverage) Forget() {
	clear(c.listed)
	clear(c.filtered)
	c.unknown, c.ahead, c.replay = 0, 0, replay{}
	c.change(func() {
		for name, l := range c.leaving {
			c.leaving[name] = Leaving{Cause: l.Cause} // a gap declares the rollback
		}
	})
}

// At returns a revision of the Namespaces at which exactly those matched that are covered.
func (c *Coverage) At() uint64 { return c.at }

// Leaving returns how a namespace leaves, false if it does not.
func (c *Coverage) Leaving(namespace string) (Leaving, bool) {
	l, leaves := c.leaving[namespace]
	return l, leaves
}

// Leaves reports whether any namespace leaves.
func (c *Coverage) Leaves() bool { return len(c.leaving) > 0 }

// ListedAt returns the revision of the list that a namespace began with, 0 if the stream has
// passed it.
func (c *Coverage) ListedAt(namespace string) uint64 { return c.listed[namespace] }

// Look returns how the namespaces that match differ from those that are covered. It returns nil if there
// has been no list yet, and why.
func (c *Coverage) Look() (*Viewed, error) {
	now, err := c.Namespaces.look(c.rule, c.labelled, c.seen)
	if now == nil {
		return nil, err
	}
	for name, l := range c.leaving {
		if _, known := now.Unmatch[name]; l.Until == 0 && !known && !now.matching.has(name) {
			now.Unmatch[name] = Flip{At: now.at} // that has failed
		}
	}
	return now, nil
}

// Flipping says that namespaces are about to be matched or unmatched.
func (c *Coverage) Flipping() { c.flipping = true }

// Settle notes that the coverage is in line with a view. It returns whether the mark changes.
func (c *Coverage) Settle(now *Viewed) (moved bool) {
	moved = c.flipping || c.agreed != now.at
	c.Due, c.flipping = false, false
	c.seen, c.at, c.agreed = now.seq, now.at, now.at
	c.change(func() {
		c.matching = now.matching // targets share it
		clear(c.flipped)
	})
	return moved
}
