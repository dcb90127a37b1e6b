package jetstream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
)

// Commit implements [journal.Cursor]. It does not wait: the position is saved
// within 200 ms, and at Close. What is below the end of the snapshot that
// is being read changes nothing. A seq beyond the end of the log is an
// error.
func (c *cursor) Commit(_ context.Context, seq uint64) error {
	if c.life.Err() != nil {
		return journal.ErrClosed
	}
	end := c.journal.log.Tail.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	if end = max(end, c.next-1); seq > end {
		return fmt.Errorf("commit %d of cursor %q: the journal ends at %d", seq, c.name, end)
	}
	if seq > c.record.Last && seq >= c.floor {
		c.record.Last = seq
		c.record.Snapshot, c.record.Since = false, 0
		c.passDropped()
		c.landed()
		c.next = max(c.next, seq+1)
		n := 0
		for n < len(c.batches) && c.batches[n].last <= c.record.Last {
			n++
		}
		c.batches = c.batches[n:]
		signal(c.journal.dirty)
	}
	return nil
}

// save writes the record if it has changed.
func (c *cursor) save(ctx context.Context) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	if c.record.Jumped != 0 && c.record.Last != c.saved.Last && len(c.seen) <= record.MaxReturned {
		c.record.Returned = c.seen.UpTo(c.record.Last)
	}
	record, saved := c.record, c.saved
	c.mu.Unlock()
	if record == saved {
		return nil
	}
	err := c.journal.log.Requests.Do(ctx, func(ctx context.Context) error {
		return c.journal.save(ctx, c.journal.records.Sink(c.name), record)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.saved = record
	c.mu.Unlock()
	return nil
}

// durable is the sequence up to which no event is needed again, whatever happens.
func (c *cursor) durable() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(c.saved.Passed(), c.record.Passed())
}

// Lag implements [journal.Cursor]. It is zero once the cursor or the journal is
// closed. During the snapshot of a new sink it does not count events that the journal has
// removed, nor time before the sink.
func (c *cursor) Lag() journal.Lag {
	if c.life.Err() != nil {
		return journal.Lag{}
	}
	end := c.journal.log.Tail.End()
	c.mu.Lock()
	committed, snapshot := c.record.Last, c.record.Snapshot
	var oldest time.Time
	if i := slices.IndexFunc(c.batches, func(b batch) bool { return b.last > committed }); i >= 0 {
		oldest = c.batches[i].at
	}
	c.mu.Unlock()
	if end <= committed {
		return journal.Lag{}
	}
	if oldest.IsZero() {
		oldest, _ = c.journal.log.Tail.Appended(committed + 1)
	}
	lag := journal.Lag{Events: end - committed}
	if snapshot {
		lag.Events = max(1, min(lag.Events, c.journal.Stats().Events))
		oldest = c.opened
	}
	if !oldest.IsZero() {
		lag.Seconds = max(0, time.Since(oldest).Seconds())
	}
	return lag
}

// Note implements [journal.Noter].
func (c *cursor) Note() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record.Note
}

// SetNote implements [journal.Noter].
func (c *cursor) SetNote(note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Note = note
	signal(c.journal.dirty)
}

// KeepGap implements [journal.Noter]: the journal keeps none.
func (*cursor) KeepGap(event.Event) {}

var _ journal.Noter = (*cursor)(nil)
