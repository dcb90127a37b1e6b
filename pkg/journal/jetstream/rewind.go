package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
)

// errSnapshot is returned by Rewind while the sink has not got everything once.
var errSnapshot = errors.New("the sink is still at its first snapshot, which has everything")

// Rewind implements [journal.Cursor]. The new position is durable when it returns.
// What the history limit has removed since cannot come again; a gap event counts
// it.
func (c *cursor) Rewind(ctx context.Context, since time.Time) (uint64, error) {
	if err := c.usable(ctx); err != nil {
		return 0, err
	}
	bounded, cancel := both(ctx, c.life)
	defer cancel()
	select {
	case c.reader <- struct{}{}:
		defer func() { <-c.reader }()
	case <-bounded.Done():
		return 0, c.cause(ctx, bounded.Err())
	}
	var n uint64
	err := retry(bounded, c.journal.asking, func(ctx context.Context) (err error) {
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
		return 0, final(fmt.Errorf("rewind: %w", errSnapshot))
	}
	first, stored, err := c.firstSince(ctx, since)
	if err != nil {
		return 0, err
	}
	if first == 0 || first > old.Last {
		return 0, nil
	}
	behind, err := c.storedFrom(ctx, old.Last+1)
	if err != nil {
		return 0, err
	}
	anew := old
	anew.Last = first - 1
	anew.Run++
	anew.Until = max(old.Until, old.Last)
	anew.Detached = max(old.Detached, anew.Until)
	anew.Jumped = min(old.Jumped, first) // what lies below first stays as it is
	if err := c.journal.save(ctx, c.journal.sinkKey(c.name), anew); err != nil {
		return 0, err
	}
	c.forget(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record, c.saved, c.floor, c.next, c.batches, c.seen = anew, anew, 0, first, nil, nil
	return stored - min(stored, behind), nil
}

// firstSince returns the first sequence that was stored at or after since, 0 if
// there is none, and how many messages there are from there on.
func (c *cursor) firstSince(ctx context.Context, since time.Time) (first, stored uint64, err error) {
	p, err := c.journal.pull(ctx, scan{stream: c.journal.stream, policy: js.DeliverByStartTimePolicy, since: since, headers: true, batch: 1})
	if err != nil {
		return 0, 0, err
	}
	defer p.close(ctx)
	stored = p.pending
	found, err := p.next(ctx)
	if err != nil || len(found) == 0 {
		return 0, 0, err
	}
	return found[0].seq, stored, nil
}

// storedFrom returns how many messages there are from a sequence on.
func (c *cursor) storedFrom(ctx context.Context, seq uint64) (uint64, error) {
	p, err := c.journal.pull(ctx, scan{stream: c.journal.stream, policy: js.DeliverByStartSequencePolicy, from: seq, headers: true, batch: 1})
	if err != nil {
		return 0, err
	}
	defer p.close(ctx)
	return p.pending, nil
}
