package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// errSnapshot is returned by Rewind while the sink has not got everything once.
var errSnapshot = errors.New("the first snapshot of the sink is not complete, and contains every object")

// Rewind implements [journal.Cursor]. The new position is durable when it returns.
// What the history limit has removed since cannot come again; a gap event counts
// it. The beginnings and ends of snapshots do not come again: between them would be what
// the rewind finds, which is not all that there is.
func (c *cursor) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	bounded, release, err := c.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	var n uint64
	err = server.Retry(bounded, c.journal.asking, func(ctx context.Context) (err error) {
		n, err = c.rewind(ctx, since)
		return err
	})
	return n, c.cause(ctx, err)
}

func (c *cursor) rewind(ctx context.Context, since time.Time) (uint64, error) {
	c.mu.Lock()
	old := c.record
	c.mu.Unlock()
	if old.Snapshot {
		return 0, server.Final(fmt.Errorf("rewind: %w", errSnapshot))
	}
	first, err := c.journal.log.Stream.FirstSince(ctx, since)
	if err != nil {
		return 0, err
	}
	if first == 0 || first > old.Last {
		return 0, nil
	}
	stored, err := c.journal.storedFrom(ctx, first)
	if err != nil {
		return 0, err
	}
	behind, err := c.journal.storedFrom(ctx, old.Last+1)
	if err != nil {
		return 0, err
	}
	next := old
	next.Last = first - 1
	next.Run = max(c.journal.runs.Next(), old.Run+1)
	next.Until = max(old.Until, old.Last)
	next.Detached = max(old.Detached, next.Until)
	next.Returned = ""                   // they come again
	next.Jumped = min(old.Jumped, first) // what lies below first stays as it is
	if err := c.journal.save(ctx, c.journal.records.Sink(c.name), next); err != nil {
		return 0, err
	}
	c.forget(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record, c.saved, c.floor, c.next, c.batches, c.seen = next, next, 0, first, nil, nil
	c.withheld = c.withheldBefore()
	return max(stored-min(stored, behind), 1), nil
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

// storedFrom returns about how many messages there are from a sequence on.
func (j *Journal) storedFrom(ctx context.Context, seq uint64) (uint64, error) {
	return j.log.Stream.Count(ctx, scan.Scan{Policy: js.DeliverByStartSequencePolicy, From: seq, Headers: true, Batch: 1})
}
