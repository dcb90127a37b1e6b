package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/message"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
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

// headerCopyOf marks the copy of the end of an object; it has the sequence of the
// original.
const headerCopyOf = "informd-copy-of"

// maxSeen bounds the ends that a cursor remembers while it may meet their copies.
// Beyond that a deletion may come twice, with the same id.
const maxSeen = 1 << 16

// endedSubject is where the copy of an end goes, by the event's id.
func (c *Config) endedSubject(id string) string {
	prefix, id := c.root()+"._informd.ended.", message.ObjectName(id)
	if s := prefix + event.EscapeToken(id); len(s) <= message.MaxSubject {
		return s
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + hex.EncodeToString(sum[:])
}

// copyOf returns the sequence of which a message is the copy, 0 if it is none.
func copyOf(m scan.Message) uint64 {
	seq, err := strconv.ParseUint(m.Header.Get(headerCopyOf), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// keepEnd puts a copy of what the event's subject ends with into the log if that
// is the end of an object which a cursor has still to read.
func (j *Journal) keepEnd(ctx context.Context, f *flight) error {
	last := j.subjects.Get(f.subject)
	if !last.Ends || last.ID == f.id || last.Seq == f.kept || !j.unread(last.Seq) {
		return nil
	}
	m, err := j.askLast(ctx, f.message.Subject)
	if err != nil {
		return err
	}
	if m.Seq != last.Seq {
		return nil // the condition on the event will fail, and it comes here again
	}
	e, ok, err := j.messages.Decode(ctx, m)
	if err != nil || !ok {
		return err
	}
	c := &flight{event: e, message: j.config.newCopy(&e, m), copyOf: m.Seq, outcome: make(chan error, 1)}
	for {
		if err := j.flights.send(ctx, c); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		switch {
		case c.err == nil, isStale(c.err): // it is there
			f.kept = m.Seq
			return nil
		case !isTooLarge(c.err) || len(c.message.Data) == 0:
			return c.err
		}
		j.messages.Bare(&c.event, c.message, c.err) // the limit has been lowered since
	}
}

// newCopy makes the message that repeats m.
func (c *Config) newCopy(e *event.Event, m scan.Message) *nats.Msg {
	// A copy that is sent again, as its acknowledgement was lost, is refused.
	anew := &nats.Msg{Subject: c.endedSubject(e.ID), Header: make(nats.Header, len(m.Header)+1), Data: m.Data}
	for name, values := range m.Header {
		if !strings.HasPrefix(name, "Nats-") { // the conditions on the original
			anew.Header[name] = values
		}
	}
	anew.Header[headerCopyOf] = []string{strconv.FormatUint(m.Seq, 10)}
	anew.Header[js.ExpectedLastSubjSeqHeader] = []string{"0"}
	return anew
}

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
	end := c.journal.tail.End()
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
	end := c.journal.tail.End()
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
			c.seen = returned{}
		}
		c.seen[original] = seq
	}
	return true
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
