package selection

// Arrival is a namespace that came to match, and what is known of it.
type Arrival struct {
	Namespace string
	// Cause is the revision of the Namespace, After one at which it did not match yet.
	Cause, After uint64
	// LeftOut are the frames that were left out since; Known: there are no others.
	LeftOut []LeftFrame
	Known   bool
	// From is the revision at which it begins, before the frames that were left out. It is 0
	// if it must begin at the cursor, since the frames do not cover its history.
	From uint64
	// Ahead: the log holds more of it than the cursor says.
	Ahead bool
}

// Arrive returns what is known of a namespace that came to match, with the stream at cursor. An
// arrival that was broken off had announced it up to a revision.
func (c *Coverage) Arrive(namespace string, when Turned, cursor, told uint64) *Arrival {
	a := &Arrival{Namespace: namespace, Cause: when.since}
	if c.Apart {
		a.LeftOut, a.After, a.Known = c.filteredOut(namespace)
	} else {
		a.After = c.notYet(namespace, when)
		a.LeftOut, a.Known = c.leftOut.of(namespace, a.After)
	}
	a.Ahead = cursor < max(c.ahead, c.listed[namespace])
	if exact := !c.Apart && a.Cause-a.After == 1; exact && len(a.LeftOut) > 0 && !a.Ahead {
		a.From = max(when.since, told, c.leftOut.told[namespace])
	}
	return a
}

// notYet returns a revision at which a namespace did not match that turned so.
func (c *Coverage) notYet(namespace string, when Turned) uint64 {
	after := max(when.after, c.passed)
	if _, matched := c.beganWith[namespace]; !matched {
		after = max(after, c.began)
	}
	return after
}

// filteredOut is what is known of a namespace that matches and is in another store: the
// frames that were filtered out since it was covered last, and a revision from before the
// first of them.
func (c *Coverage) filteredOut(namespace string) (frames []LeftFrame, after uint64, known bool) {
	if c.resumed {
		return nil, 0, false // the process before this one can have filtered out more
	}
	after = max(c.leftOut.since, c.leftOut.told[namespace])
	frames, known = c.leftOut.of(namespace, after)
	if known && len(frames) > 0 {
		after = max(frames[0].RV, 1) - 1
	}
	return frames, after, known
}

// BeginWith notes that a namespace began with a list at rv, with the stream at cursor.
func (c *Coverage) BeginWith(a *Arrival, rv, cursor uint64) {
	c.listed[a.Namespace], c.skipped[a.Namespace] = rv, max(a.After, cursor)
	if _, candidates := c.candidates[a.Namespace]; candidates {
		c.skipped[a.Namespace] = cursor // it may have matched throughout
	}
}
