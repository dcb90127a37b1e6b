package selection

import "strings"

// Start returns where a target at a position begins with a namespace that matches: at the revision at which it
// is listed, 0 for now. Missed: frames of it since it matched may have been filtered out.
func (c *Coverage) Start(name string, f Flip, position uint64) (at uint64, missed bool) {
	if !c.Apart && position >= max(c.ahead, c.listed[name]) { // else the log has later events of it
		at = position
	}
	return at, c.Apart || f.After < c.unknown || c.filtered[name] > f.After
}

// Cover covers a namespace. Its objects are listed next.
func (c *Coverage) Cover(name string) {
	c.change(func() {
		c.set(name, true, Flip{At: c.Namespaces.at})
		delete(c.leaving, name)
	})
}

// Began notes that a namespace began with a list at revision rv, with the stream at a position.
func (c *Coverage) Began(name string, rv, position uint64) {
	if rv > position {
		c.listed[name] = rv
	}
	delete(c.filtered, name)
}

// Uncover covers a namespace no longer, since a flip or until it is listed. If the flip has no revision, and the
// namespace matches again meanwhile, it does since its newest one. Leaves: its frames count until it has
// left.
func (c *Coverage) Uncover(name string, f Flip, l Leaving, leaves bool) {
	c.change(func() {
		if f.At == 0 {
			f.At = c.Namespaces.known[name].rv
		}
		c.set(name, false, f)
		if delete(c.leaving, name); leaves {
			c.leaving[name] = l
		}
	})
}

// Filters reports whether a frame at revision rv is filtered out: its namespace does not match, or a
// list has shown all up to there.
func (c *Coverage) Filters(namespace string, rv uint64) bool {
	if c.Filter.Wants(namespace) {
		return rv <= c.listed[namespace]
	}
	if c.Known && c.Filter.Named(namespace) {
		c.Skip(namespace, rv)
	}
	return true
}

// Skip notes that a frame was filtered out. If there are too many namespaces, it forgets all of them.
func (c *Coverage) Skip(namespace string, rv uint64) {
	newest, known := c.filtered[namespace]
	if !known && len(c.filtered) >= maxFiltered {
		for _, newest := range c.filtered {
			c.unknown = max(c.unknown, newest)
		}
		clear(c.filtered)
	}
	if !known {
		namespace = strings.Clone(namespace) // it is a slice of something larger
	}
	c.filtered[namespace] = max(newest, rv)
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
func (c *Coverage) Left(name string) { c.change(func() { delete(c.leaving, name) }) }
