package jetstream

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// Rewind implements [journal.Cursor]. The new position is durable when it returns.
// What the history limit has removed since cannot come again; a gap event counts it. If the tail
// does not have it, the gap may count events from directly before since, too. The beginnings and ends of snapshots do not come again: between them would be what
// the rewind finds, which is not all that there is.
func (c *cursor) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	bounded, release, err := c.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var n uint64
	var before scan.Preceding
	err = server.Retry(bounded, c.journal.asking, func(ctx context.Context) (err error) {
		n, err = c.rewind(ctx, since, &before)
		return err
	})
	return n, c.cause(ctx, err)
}

// Rewindable implements [journal.Rewinder].
func (c *cursor) Rewindable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Snapshot {
		return fmt.Errorf("rewind: %w", journal.ErrFirstSnapshot)
	}
	return nil
}

func (c *cursor) rewind(ctx context.Context, since time.Time, before *scan.Preceding) (uint64, error) {
	c.mu.Lock()
	committed := c.record.Last
	c.mu.Unlock()
	if err := c.Rewindable(); err != nil {
		return 0, server.Final(err)
	}
	first, err := c.journal.log.Stream.FirstSince(ctx, since)
	if err != nil {
		return 0, err
	}
	if first == 0 || first > committed {
		return 0, nil
	}
	stored, err := c.journal.log.Stream.CountFrom(ctx, first)
	if err != nil {
		return 0, err
	}
	behind, err := c.journal.log.Stream.CountFrom(ctx, committed+1)
	if err != nil {
		return 0, err
	}
	last, err := c.journal.log.Stream.LastBefore(ctx, before, first)
	if err != nil {
		return 0, err
	}
	if err := c.rewindTo(ctx, c.journal.log.Tail.From(since, last+1, first)); err != nil {
		return 0, err
	}
	return max(stored-min(stored, behind), 1), nil
}

// rewindTo makes first the next sequence to read. Meanwhile no save begins: it would write the
// position of before behind the new one.
func (c *cursor) rewindTo(ctx context.Context, first uint64) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	next := c.record
	returned := maps.Clone(c.seen)
	c.mu.Unlock()
	returned.Before(first)
	if next.Returned = ""; len(returned) <= record.MaxReturned {
		next.Returned = returned.UpTo(next.Last)
	}
	next.Run = max(c.journal.runs.Next(), next.Run+1)
	next.Until = max(next.Until, next.Last)
	next.Detached = max(next.Detached, next.Until)
	next.Last = first - 1
	next.Jumped = min(next.Jumped, first) // what lies below first stays as it is
	if err := c.journal.save(ctx, c.journal.records.Sink(c.name), next); err != nil {
		return err
	}
	c.forget(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved = next
	next.Note, next.Left = c.record.Note, c.record.Left // they may be newer, and are saved next
	c.record = next
	c.again(first)
	c.withheld = c.withheldBefore()
	return nil
}

// rename gives what is read again after a rewind its run, and says what may not follow
// what was read before. The entries are the cursor's own; what their events
// point to is shared.
func (c *cursor) rename(entries []journal.Entry) {
	c.mu.Lock()
	run, until, detached := c.record.Run, c.record.Until, c.record.Detached
	c.mu.Unlock()
	for i := range entries {
		entries[i].Detached = entries[i].Seq <= detached
	}
	if run == 0 {
		return
	}
	for i := range entries {
		if seq := entries[i].Seq; seq != 0 && seq <= until {
			entries[i].Event.SetRun(run)
			entries[i].Event.Redelivered = true
		}
	}
}
