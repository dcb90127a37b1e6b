package journal

import (
	"context"
	"fmt"
	"github.com/informd/informd/pkg/event"
	"time"
)

// memoryCursor is one reader of a [Memory]. The journal's lock guards it.
type memoryCursor struct {
	journal   *Memory
	name      string
	committed uint64 // the last sequence that this reader is done with
	next      uint64 // the first sequence that Read has not returned yet

	entries []Entry // what Read has returned last, its own

	news   chan struct{} // one signal: something was appended
	closed chan struct{}
}

// Read implements [Cursor]. A limit below 1 counts as 1. The entries are in the same
// memory each time.
func (c *memoryCursor) Read(ctx context.Context, limit int) ([]Entry, error) {
	clear(c.entries) // do not keep them alive while waiting
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entries, err := c.take(limit)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		select {
		case <-c.news:
		case <-ctx.Done():
		case <-c.closed:
		case <-c.journal.closed:
		}
	}
}

// take returns what can be read now, possibly nothing.
func (c *memoryCursor) take(limit int) ([]Entry, error) {
	m := c.journal
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.isClosed() {
		return nil, ErrClosed
	}
	n := min(uint64(max(limit, 1)), m.ring.last+1-c.next)
	if n == 0 {
		return nil, nil
	}
	c.entries = c.entries[:0]
	for range n {
		c.entries = append(c.entries, Entry{Seq: c.next, Event: m.ring.at(c.next).event})
		c.next++
	}
	return c.entries, nil
}

// Commit implements [Cursor]. It never blocks. A seq beyond the end of the log
// is an error.
func (c *memoryCursor) Commit(_ context.Context, seq uint64) error {
	m := c.journal
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.isClosed() {
		return ErrClosed
	}
	if seq > m.ring.last {
		return fmt.Errorf("commit %d of cursor %q: the journal ends at %d", seq, c.name, m.ring.last)
	}
	if seq > c.committed {
		c.committed = seq
		c.next = max(c.next, seq+1)
		m.trim()
	}
	return nil
}

// Reset implements [Cursor]. It never blocks.
func (c *memoryCursor) Reset(context.Context) error {
	m := c.journal
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.isClosed() {
		return ErrClosed
	}
	c.next = c.committed + 1
	return nil
}

// Rewind implements [Rewinder]: the journal keeps no committed events.
func (c *memoryCursor) Rewind(context.Context, time.Time) (uint64, error) { return 0, ErrNotKept }

// Rewindable implements [Rewinder].
func (c *memoryCursor) Rewindable() error { return ErrNotKept }

// Resnapshot implements [Resnapshotter]: the journal keeps no states.
func (c *memoryCursor) Resnapshot(context.Context, Resnapshot) error { return ErrNotKept }

// KeepResnapshots implements [ResnapshotKeeper]: no later process can read this journal.
func (c *memoryCursor) KeepResnapshots(context.Context, []Resnapshot) error { return ErrNotKept }

func (c *memoryCursor) KeptResnapshots(context.Context) ([]Resnapshot, error) {
	return nil, ErrNotKept
}

// Note implements [Noter]: the journal keeps none.
func (c *memoryCursor) Note() string { return "" }

func (c *memoryCursor) SetNote(string) {}

// Lag implements [Cursor]. It is zero once the cursor or the journal is closed.
func (c *memoryCursor) Lag() Lag {
	m := c.journal
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.isClosed() || c.committed == m.ring.last {
		return Lag{}
	}
	oldest := m.ring.at(c.committed + 1)
	return Lag{
		Events:  m.ring.last - c.committed,
		Seconds: (m.now() - oldest.at).Seconds(),
	}
}

func (c *memoryCursor) Close() error {
	m := c.journal
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.isClosed() {
		return ErrClosed
	}
	close(c.closed)
	delete(m.cursors, c.name)
	m.trim()
	return nil
}

func (c *memoryCursor) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return c.journal.isClosed()
	}
}

// KeepGap implements [Noter]: the journal keeps none.
func (*memoryCursor) KeepGap(event.Event) {}
