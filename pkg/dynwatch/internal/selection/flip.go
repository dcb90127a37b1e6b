package selection

import "strings"

// Start is where a target begins with a namespace that matches.
type Start struct {
	// At is the revision at which it is listed, 0 for now. Replays: the watch brings once more what
	// followed.
	At      uint64
	Replays bool
	// After is a revision at which the namespace did not match yet. Gap: states since may be missing.
	After uint64
	Gap   bool
}

// Start returns where a target at a position begins with a namespace that matches.
func (c *Coverage) Start(name string, f Flip, position uint64) Start {
	frames, broken := c.filtered[name], c.leaving[name].Broken
	known, exact := f.After >= c.unknown, f.At == f.After+1
	switch {
	case c.Apart: // no revision says which frames came before
		return Start{Gap: true}
	case broken != 0:
		return Start{After: broken, Gap: true}
	case position < max(c.ahead, c.listed[name]): // the log has later events of it
		return Start{After: f.After, Gap: true}
	case known && frames.newest <= f.After:
		return Start{At: position, After: f.After}
	case known && exact:
		return Start{At: max(f.At, frames.after), After: f.After, Replays: true}
	default:
		return Start{At: position, After: f.After, Gap: true}
	}
}

// Cover covers a namespace. Its objects are listed next.
func (c *Coverage) Cover(name string) {
	c.change(func() {
		c.set(name, true, Flip{At: c.Namespaces.at})
		delete(c.leaving, name)
	})
}

// Began notes that a namespace began with a list at revision rv, with the stream at a position.
func (c *Coverage) Began(name string, s Start, rv, position uint64) {
	if s.Replays {
		r := &c.replay
		if r.from == 0 {
			*r = replay{from: rv, end: position, names: make(map[string]struct{})}
		}
		r.from, r.until = min(r.from, rv), max(r.until, c.filtered[name].newest)
		r.names[name] = struct{}{}
	}
	if s.Replays || rv > position {
		c.listed[name] = rv
	}
	delete(c.filtered, name)
}

// Uncover covers a namespace no longer. Leaves: its frames count until it has left.
func (c *Coverage) Uncover(name string, l Leaving, leaves bool) {
	c.change(func() {
		c.set(name, false, Flip{At: c.Namespaces.at})
		if delete(c.leaving, name); leaves {
			c.leaving[name] = l
		}
	})
}

// Filters reports whether a frame at revision rv is filtered out: its namespace does not match, or a
// list has shown all up to there.
func (c *Coverage) Filters(namespace string, rv uint64) bool {
	_, replays := c.replay.names[namespace]
	switch {
	case !c.Filter.Wants(namespace):
		if c.Known && c.Filter.Named(namespace) {
			c.filter(strings.Clone(namespace), rv) // it is a slice of something larger
		}
		return true
	case rv <= c.replay.end && !replays:
		return true
	default:
		return rv <= c.listed[namespace]
	}
}

// filter notes a frame that is filtered out. If there are too many namespaces, it forgets all of them.
func (c *Coverage) filter(namespace string, rv uint64) {
	if _, known := c.filtered[namespace]; !known && len(c.filtered) >= maxFiltered {
		for _, f := range c.filtered {
			c.unknown = max(c.unknown, f.after, f.newest)
		}
		clear(c.filtered)
	}
	f := c.filtered[namespace]
	if rv > f.after {
		f.newest = max(f.newest, rv)
	}
	c.filtered[namespace] = f
}

// Pass notes that the stream has brought everything up to rv. It returns the namespaces that
// have left with that: [Coverage.Left] takes note of each. Moved: the mark may change.
func (c *Coverage) Pass(rv uint64) (left map[string]Leaving, moved bool) {
	for name, at := range c.listed {
		if at <= rv {
			delete(c.listed, name)
			moved = true
		}
	}
	for name, l := range c.leaving {
		if l.Until != 0 && l.Until <= rv {
			if left == nil {
				left = make(map[string]Leaving)
			}
			left[name], moved = l, true
		}
	}
	return left, moved
}

// Left notes that the objects of a namespace have left.
func (c *Coverage) Left(name string) {
	c.filter(name, 0)
	c.filtered[name] = filtered{after: c.leaving[name].Until}
	c.change(func() { delete(c.leaving, name) })
}

// Replayed notes that the watch has brought a frame or a bookmark at revision rv. Ended: with that
// it has brought once more what was filtered out.
func (c *Coverage) Replayed(rv uint64) (ended bool) {
	r := &c.replay
	if r.from == 0 {
		if r.end != 0 && rv > r.end {
			*r = replay{}
		}
		return false
	}
	if rv < r.until {
		r.from = max(r.from, max(rv, 1)-1) // more may have ended at that revision
		return false
	}
	r.from, r.until, r.names = 0, 0, nil
	return true
}

// Replays returns the revision to watch from while the watch is to bring a stretch once more, 0 if not.
func (c *Coverage) Replays() uint64 { return c.replay.from }

// GiveUp gives up what the watch was to bring once more, as that has expired. It returns false if
// there is nothing of that kind. Its namespaces are matched again, and a gap declares what is missing.
func (c *Coverage) GiveUp() bool {
	if c.replay.from == 0 {
		return false
	}
	for name := range c.replay.names {
		c.Uncover(name, Leaving{Broken: c.replay.from}, true)
	}
	c.replay, c.Due = replay{}, true
	return true
}
