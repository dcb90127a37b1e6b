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
	if !c.outdated && !c.flipping && len(c.labelled.leaving)+len(c.listed) == 0 {
		c.labelled.mu.RLock()
		defer c.labelled.mu.RUnlock()
		m.Hash = c.labelled.hash()
	}
	return m
}

// Begin covers the namespaces that match now. The watch begins at a position, and the log may be
// ahead of it. It returns false if there has been no list of the Namespaces yet, and why.
func (c *Coverage) Begin(tm listwatch.Timing, position, ahead uint64) (begun bool, err error) {
	if c.Changed == nil {
		c.Namespaces.join(tm, c.rule, c.labelled)
		c.Changed = c.labelled.changed
	}
	c.labelled.mu.Lock()
	defer c.labelled.mu.Unlock()
	if c.Namespaces.known == nil {
		return false, c.Namespaces.err
	}
	clear(c.labelled.pending)
	c.listed, c.filtered = make(map[string]uint64), make(map[string]uint64)
	c.unknown, c.ahead = position, ahead
	c.at, c.agreed, c.Due = c.Namespaces.at, c.Namespaces.at, true
	return true, nil
}

// Matched reports whether the namespaces that match are those of a mark.
func (c *Coverage) Matched(m Mark) bool { return c.Mark().Hash == m.Hash }

// Suspect says that the log is in line with a mark at best, so that all objects are compared with a list.
// Namespaces are those of which the log has objects. The ones that the target does not cover leave after
// the comparison.
func (c *Coverage) Suspect(m Mark, namespaces map[string]struct{}) {
	c.outdated, c.agreed = true, m.At
	for name := range namespaces {
		if !c.Filter.Covers(name) {
			c.change(func() { c.labelled.leaving[name] = Leaving{} })
		}
	}
}

// Outdated reports whether the log may be in line with other namespaces than those that match.
func (c *Coverage) Outdated() bool { return c.outdated }

// Listed says that a first list has announced the objects of the namespaces that match, and no others.
func (c *Coverage) Listed() {
	c.Compared(0) // nothing is promised of what was before
	for name := range c.labelled.leaving {
		c.Left(name)
	}
}

// Compared says that the log is in line with a list of all objects at revision rv. Namespaces that have yet
// to leave are the exception: if such a namespace matched for a while since then, its changes of that time
// are announced only in part.
func (c *Coverage) Compared(rv uint64) {
	c.outdated, c.unknown = false, rv
	clear(c.filtered)
	for name, l := range c.labelled.leaving {
		if l.Until == 0 && l.Broken == 0 {
			l.Broken = rv
			c.change(func() { c.labelled.leaving[name] = l })
		}
	}
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
	c.unknown, c.ahead = 0, 0
	for name, l := range c.labelled.leaving {
		c.change(func() { c.labelled.leaving[name] = Leaving{Cause: l.Cause} }) // a gap declares the rollback
	}
}

// At returns a revision of the Namespaces at which exactly those matched that are covered.
func (c *Coverage) At() uint64 { return c.at }

// Leaving returns how a namespace leaves, false if it does not.
func (c *Coverage) Leaving(namespace string) (Leaving, bool) {
	l, leaves := c.labelled.leaving[namespace]
	return l, leaves
}

// LeavesAt returns the revision up to which frames of namespaces that leave count, 0 if there are none or none is known.
func (c *Coverage) LeavesAt() (rv uint64) {
	for _, l := range c.labelled.leaving {
		rv = max(rv, l.Until)
	}
	return rv
}

// Leaves reports whether any namespace leaves.
func (c *Coverage) Leaves() bool { return len(c.labelled.leaving) > 0 }

// ListedAt returns the revision of the list that a namespace began with, 0 if the stream has
// passed it.
func (c *Coverage) ListedAt(namespace string) uint64 { return c.listed[namespace] }

// Viewed are the flips that a target has yet to apply, when the Namespaces were at revision at. Match has
// the namespaces that match and that the target does not cover. Unmatch has those that it covers, or that
// have yet to leave, and that do not match.
type Viewed struct {
	at             uint64
	Match, Unmatch map[string]Flip
}

// Look returns how the namespaces that match differ from those that are covered. It returns nil if there
// has been no list yet, and why.
func (c *Coverage) Look() (*Viewed, error) {
	c.labelled.mu.RLock()
	defer c.labelled.mu.RUnlock()
	if c.Namespaces.known == nil {
		return nil, c.Namespaces.err
	}
	now := &Viewed{at: c.Namespaces.at, Match: make(map[string]Flip), Unmatch: make(map[string]Flip)}
	for name, f := range c.labelled.pending {
		if c.labelled.covers(name) {
			now.Unmatch[name] = f
		} else {
			now.Match[name] = f
		}
	}
	for name, l := range c.labelled.leaving {
		if _, matches := now.Match[name]; l.Until == 0 && !matches {
			now.Unmatch[name] = Flip{At: now.at} // to unmatch it has failed, or is yet to be done
		}
	}
	return now, nil
}

// Flipping says that namespaces are about to be matched or unmatched.
func (c *Coverage) Flipping() { c.flipping = true }

// Settle notes that the flips of a view are applied. It returns whether the mark changes.
func (c *Coverage) Settle(now *Viewed) (moved bool) {
	moved = c.flipping || c.agreed != now.at
	c.Due, c.flipping = false, false
	c.at, c.agreed = now.at, now.at
	return moved
}
