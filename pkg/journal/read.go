package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// acquire waits until no other call uses the sources.
func (c *Cursor) acquire(ctx context.Context) (release func(), err error) {
	if c.isClosed() {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c.reading <- struct{}{}:
		return func() { <-c.reading }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, ErrClosed
	}
}

// Read returns the next entries in order, at least one and at most limit. It blocks until there is one.
// The entries are valid until the next Read. Their events are valid longer, and shared: do not change
// them. Read does not commit.
func (c *Cursor) Read(ctx context.Context, limit int) ([]Entry, error) {
	release, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	limit = max(limit, 1)
	for {
		entries, err := c.poll(limit)
		if len(entries) > 0 || err != nil {
			return entries, err
		}
		select {
		case <-c.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed:
			return nil, ErrClosed
		}
		if err := c.journal.log.Monitor.Failure(); err != nil {
			return nil, err
		}
	}
}

// poll returns the next entries, none if the cursor is at the end.
func (c *Cursor) poll(limit int) ([]Entry, error) {
	for {
		if entries := c.dequeue(limit); len(entries) > 0 {
			return entries, nil
		}
		if more, err := c.advance(limit); err != nil || !more {
			return nil, err
		}
	}
}

// advance puts the next entries into the queue, from a snapshot and from the log in turn. It returns
// false if neither has any.
func (c *Cursor) advance(limit int) (more bool, err error) {
	c.beginRequest()
	if s := c.states; s != nil && s.due() {
		return true, s.advance(limit)
	}
	c.mu.Lock()
	before := c.next
	c.mu.Unlock()
	to := c.journal.log.Barrier.Readable()
	if s := c.states; s != nil && s.step == stepLog {
		to = min(to, s.until)
	}
	entries, err := c.upTo(to, limit)
	if err != nil {
		return false, err
	}
	if len(c.queue) == 0 {
		c.queue = entries
	} else {
		c.queue = append(c.queue, entries...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	more = c.next != before
	if s := c.states; s != nil {
		more = more || s.rests
		s.rests = false
	}
	return more, nil
}

// dequeue returns what was read ahead and is not committed.
func (c *Cursor) dequeue(limit int) []Entry {
	c.mu.Lock()
	committed, first := c.position.Seq, c.position.Snapshot
	c.mu.Unlock()
	for !first && len(c.queue) > 0 && c.queue[0].Seq != 0 && c.queue[0].Seq <= committed {
		c.queue = c.queue[1:]
	}
	n := min(limit, len(c.queue))
	if s := c.states; s != nil && s.first {
		n = min(n, len(c.queue)-1) // the last one completes the snapshot
	}
	n = max(n, 0)
	entries := c.queue[:n:n]
	c.queue = c.queue[n:]
	return entries
}

// upTo returns the next events of the log up to a sequence that was readable. It counts what is missing in between.
func (c *Cursor) upTo(to uint64, limit int) (entries []Entry, err error) {
	c.mu.Lock()
	next := c.next
	c.mu.Unlock()
	if next > to {
		return nil, nil
	}
	found, none, err := c.find(next, to, limit)
	if err != nil || len(found) == 0 && !none {
		return nil, err
	}
	entries = make([]Entry, 0, len(found)+1)
	for i := range found {
		entries = c.declare(entries, next, found[i].Seq)
		next = found[i].Seq + 1
		if e, ok := c.entry(&found[i]); ok {
			entries = append(entries, e)
		}
	}
	if none {
		entries = c.declare(entries, next, to+1)
		next = to + 1
	}
	c.readUpTo(found, next)
	if c.states != nil {
		entries = c.states.read(entries)
	}
	return entries, nil
}

// find returns some of the events between two sequences, from memory or from files. None is true if the
// log has none there. Without events and without that, what was readable waits for the disk again, as
// the first snapshot of another sink may have it do.
func (c *Cursor) find(next, to uint64, limit int) (found []wal.Entry, none bool, err error) {
	found, behind := c.journal.log.Tail.Read(next, to, limit)
	if behind {
		if c.files == nil {
			c.files = c.journal.log.History.NewReader(next)
		}
		found, err = c.files.Next(to, limit)
		return found, len(found) == 0, err
	}
	if c.files != nil {
		c.files.Close()
		c.files = nil
	}
	return found, false, nil
}

// declare adds a gap event if events between two sequences were removed unread.
func (c *Cursor) declare(entries []Entry, next, found uint64) []Entry {
	if found <= next {
		return entries
	}
	lost := found - next - c.journal.log.Skipped(next, found-1)
	if lost == 0 {
		return entries
	}
	if c.states != nil {
		c.states.extend()
	}
	return append(entries, c.trimmed(next, found-1, lost))
}

// readUpTo notes that everything before next was read.
func (c *Cursor) readUpTo(found []wal.Entry, next uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.oldest.IsZero() && len(found) > 0 {
		c.oldest = found[0].Appended
	}
	c.next, c.oldestSeq = max(c.next, next), next-1
	c.settle()
}

// trimmed is the gap event about removed events. The events that follow may lack the ones before
// them.
func (c *Cursor) trimmed(from, to, count uint64) Entry {
	c.mu.Lock()
	c.position.Detached, c.last = max(c.position.Detached, c.journal.log.Keys.Last()), to
	c.mu.Unlock()
	next := "raise journal.maxBytes, or make the sink faster"
	if from <= c.journal.log.Damage {
		next = "the journal was damaged: check the disk of journal.dir"
	}
	c.journal.config.Logger.Warn("history removed before the sink read it; sending a gap", "sink", c.name, "count", count, "next", next,
		"runbook", display.GapRunbook("trimmed"))
	e := event.Event{
		ID: form.TrimmedID(c.name, from, to), Op: event.Gap, Time: time.Now().UTC().Truncate(time.Microsecond),
		Cluster: c.journal.config.Cluster, Target: event.AllTargets,
		Gap: &event.GapInfo{Reason: "trimmed", Recovered: event.RecoveredState, Trimmed: count},
	}
	c.KeepGap(e)
	return Entry{Event: e}
}

// entry makes the entry of an event. After a rewind, events have its run, and the bounds of
// snapshots are left out: between them would be what the rewind finds, not every object. So is the end of one
// that may be incomplete.
func (c *Cursor) entry(from *wal.Entry) (e Entry, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.position
	if from.Event.Op == event.Synced && from.Seq <= p.Incomplete {
		return Entry{}, false
	}
	// A snapshot leaves out objects that have a newer event: a filter must not stop that.
	e = Entry{Seq: from.Seq, Event: from.Event, Detached: from.Seq <= p.Detached || c.states.replace(&from.Event)}
	if p.Run != 0 && from.Seq <= p.Until {
		if e.Event.Op.Bounds() {
			return Entry{}, false
		}
		e.Event.SetRun(p.Run)
		e.Event.Redelivered = true
	}
	c.last = from.Seq
	return e, true
}

// Reset moves the next Read to the first uncommitted entry. No Read may be in progress. The only errors
// are that of ctx and ErrClosed.
func (c *Cursor) Reset(ctx context.Context) error {
	release, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	c.restart()
	return nil
}

// restart makes the first uncommitted event the next one.
func (c *Cursor) restart() {
	c.forget()
	c.mu.Lock()
	c.next, c.last, c.floor, c.oldest = c.position.Seq+1, 0, 0, time.Time{}
	c.requests.begun, c.requests.announced = false, false
	c.mu.Unlock()
	c.beginSnapshot()
}

// Rewindable returns the error of a Rewind that is certain to fail now: ErrFirstSnapshot. It does not
// block. So a caller need not end its Read and Commit in vain.
func (c *Cursor) Rewindable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.position.Snapshot {
		return fmt.Errorf("rewind: %w", ErrFirstSnapshot)
	}
	return nil
}

// Rewind moves the cursor back to the events that were appended at or after since, and returns their
// number. They have a new Run and are Redelivered. Rewind does not repeat Begin and Synced. A gap counts
// what was removed since. The new position is durable when it returns. ErrFirstSnapshot is one of its
// errors. No Read and no Commit may be in progress.
func (c *Cursor) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	release, err := c.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := c.Rewindable(); err != nil {
		return 0, err
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	p := c.position
	c.mu.Unlock()
	first, before, err := c.journal.log.History.Since(since)
	if err != nil || first > p.Seq {
		return 0, err
	}
	n, err := c.journal.log.History.Count(first, p.Seq)
	if err != nil {
		return 0, err
	}
	p.Run = max(c.journal.runs.Next(), p.Run+1)
	p.Until = max(p.Until, p.Seq)
	p.Detached = max(p.Detached, p.Until)
	p.Seq = before
	if err := c.write(p); err != nil {
		return 0, err
	}
	if err := c.journal.log.Syncer.Sync(ctx); err != nil {
		return 0, err
	}
	c.mu.Lock()
	p.Note, p.Acknowledged = c.position.Note, c.position.Acknowledged
	c.position = p
	c.mu.Unlock()
	c.restart()
	return n, nil
}
