package selection

import "strings"

// Start returns how a target at a position begins with a namespace that matches. At is the revision at
// which the target lists the namespace, and 0 for a list of now. Missed reports whether frames of the
// namespace may have been filtered out since it matched.
func (c *Coverage) Start(name string, f Flip, position uint64) (at uint64, missed bool) {
	if !c.Apart && position >= max(c.ahead, c.listed[name]) { // else the log has later events of it
		at = position
	}
	return at, c.Apart || f.After < c.unknown || c.filtered[name] > f.After
}

// Cover covers a namespace. Its objects are listed next.
func (c *Coverage) Cover(name string) {
	c.change(func() {
		c.labelled.set(name, true, Flip{At: c.Namespaces.at})
		delete(c.labelled.leaving, name)
	})
}

// Began notes that a namespace began with a list at revision rv, with the stream at a position.
func (c *Coverage) Began(name string, rv, position uint64) {
	if rv > position {
		c.listed[name] = rv
	}
	delete(c.filtered, name)
}

// Uncover says that the target no longer covers a namespace, or does not cover it before it is listed. If
// the namespace matches by now, f is the flip that the target has yet to apply. A flip without a revision
// At gets the newest revision of the Namespace. If leaves is true, frames of the namespace count until it
// has left, as l says.
func (c *Coverage) Uncover(name string, f Flip, l Leaving, leaves bool) {
	c.change(func() {
		if f.At == 0 {
			f.At = c.Namespaces.known[name].rv
		}
		c.labelled.set(name, false, f)
		if delete(c.labelled.leaving, name); leaves {
			c.labelled.leaving[name] = l
		}
	})
}

// Filters reports whether a frame at revision rv is filtered out. It is if its namespace is neither
// covered nor leaving, or if a list of the namespace has shown everything up to rv.
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

// Pass notes that the stream has brought everything up to rv. It returns the namespaces whose frames no
// longer count with that. The caller calls [Coverage.Left] for each of them. Moved reports whether the
// mark may change.
func (c *Coverage) Pass(rv uint64) (left map[string]Leaving, moved bool) {
	for name, at := range c.listed {
		if at <= rv {
			delete(c.listed, name)
			moved = true
		}
	}
	for name, l := range c.labelled.leaving {
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
func (c *Coverage) Left(name string) { c.change(func() { delete(c.labelled.leaving, name) }) }
