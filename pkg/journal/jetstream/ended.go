package jetstream

import (
	"slices"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
)

// The history limit counts by subject, that is by name. When a name is used again,
// what the new object does would push the end of the old one out of the log before
// a cursor that is far behind has read it. So a copy of the end goes into the log,
// under a subject of its own, directly before the new object begins, unless every
// open cursor has passed the end already, and every sink that may come back (absent.go).
// A cursor leaves the copy out, unless it has jumped over the original. While it reads
// behind such a jump, its record names the deletions that the sink has committed, so that
// a restart leaves out their copies, too: see maxReturned. The janitor removes the copy
// once all cursors have passed it.

// maxSeen bounds the ends that a cursor remembers while it may meet their copies.
// Beyond that a deletion may come twice, with the same id.
const maxSeen = 1 << 16

// unread reports whether a cursor has not passed seq for good, or a sink that is not
// open and may come back.
func (j *Journal) unread(seq uint64) bool {
	open, absent := j.sinks()
	for _, c := range open {
		if c.durable() < seq {
			return true
		}
	}
	return absent < seq
}

// jump says that the events from first on, up to some later one, were removed
// before the cursor came to them. Their copies, if there are any, are in the log
// by now.
func (c *cursor) jump(first uint64) {
	end := c.journal.log.Tail.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Jumped == 0 || first < c.record.Jumped {
		c.record.Jumped = first
	}
	c.jumpedUntil = max(c.jumpedUntil, end)
	c.record.Detached = max(c.record.Detached, end)
}

// detach says that of what is in the log by now, up to seq at least, the events before
// may not have been returned.
func (c *cursor) detach(seq uint64) {
	end := c.journal.log.Tail.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Detached = max(c.record.Detached, end, seq)
}

// landed forgets what was jumped over once the copies of it are committed. It is
// called with the lock held.
func (c *cursor) landed() {
	if c.record.Jumped != 0 && c.record.Last >= c.jumpedUntil {
		c.record.Jumped, c.record.Returned, c.jumpedUntil, c.seen = 0, "", 0, nil
	}
}

// admit reports whether a message that was read is to be returned: a copy only if
// the original was not, and the bounds of a snapshot only the first time. It must be
// called once for each.
func (c *cursor) admit(seq uint64, op event.Op, copyOf uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.admitLocked(seq, op, copyOf)
}

// admitAll leaves out what admit does not let through; copies has of which
// sequence an entry is the copy.
func (c *cursor) admitAll(entries []journal.Entry, copies map[uint64]uint64) []journal.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Jumped == 0 && len(copies) == 0 && (len(entries) == 0 || !c.rewound(entries[0].Seq)) {
		return entries
	}
	return slices.DeleteFunc(entries, func(e journal.Entry) bool {
		return !c.admitLocked(e.Seq, e.Event.Op, copies[e.Seq])
	})
}

// rewound reports whether a sequence is read again. It is called with the lock held.
func (c *cursor) rewound(seq uint64) bool { return c.record.Run != 0 && seq <= c.record.Until }

func (c *cursor) admitLocked(seq uint64, op event.Op, copyOf uint64) bool {
	if op.Bounds() && c.rewound(seq) {
		c.drop(seq)
		return false
	}
	original := seq
	if copyOf != 0 {
		original = copyOf
		_, seen := c.seen[original]
		if jumped := c.record.Jumped; jumped == 0 || original < jumped || original > c.jumpedUntil || seen {
			c.drop(seq)
			return false
		}
	}
	if op.Ends() && c.record.Jumped != 0 {
		if c.seen == nil || len(c.seen) >= maxSeen {
			c.seen = record.Returned{}
		}
		c.seen[original] = seq
	}
	return true
}

// skip is drop for a message that is no event.
func (c *cursor) skip(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(seq)
}

// drop notes a message that no sink commits, as no sink gets it. It is called
// with the lock held.
func (c *cursor) drop(seq uint64) {
	if seq != c.dropped.to+1 {
		c.dropped.from = seq
	}
	c.dropped.to = seq
	c.passDropped()
}

// passDropped commits what was dropped directly behind what is committed. It is
// called with the lock held.
func (c *cursor) passDropped() {
	if d := c.dropped; d.to > c.record.Last && d.from <= c.record.Last+1 && !c.record.Snapshot {
		c.record.Last = d.to
		signal(c.journal.dirty)
	}
}
