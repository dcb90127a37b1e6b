package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// cursor is a [journal.Cursor] that continues in every generation of the journal.
type cursor struct {
	journal *Journal
	name    string
	start   journal.Start

	mu  sync.Mutex
	now journal.Cursor
	of  *generation
	// moved: the next Read says that the cursor has moved.
	moved bool
	// closed: no generation takes it over.
	closed bool
}

// openPatience is how long Open waits for a lost journal to be replaced.
const openPatience = 10 * time.Second

// Open implements [journal.Journal]. While the journal is lost and cannot be replaced, it returns
// [context.DeadlineExceeded]: the caller has no context with which it could end a longer wait.
func (j *Journal) Open(name string, start journal.Start) (journal.Cursor, error) {
	ctx, cancel := context.WithTimeout(j.life, openPatience)
	defer cancel()
	c := &cursor{journal: j, name: name, start: start}
	err := j.do(ctx, func(g *generation) (err error) {
		if c.now, err = g.journal.Open(name, start); err != nil {
			return err
		}
		c.of = g
		if j.register(c, g) {
			return nil
		}
		_ = c.now.Close() // the journal is lost, and its cursors with it
		return jetstream.ErrLost
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// register has the next generation take the cursor over. It returns false if g is being
// replaced.
func (j *Journal) register(c *cursor, g *generation) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now != g || !j.lost.IsZero() {
		return false
	}
	j.cursors[c] = struct{}{}
	return true
}

// move has the cursor continue in a new generation.
func (c *cursor) move(to journal.Cursor, g *generation) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		if note := c.now.Note(); note != "" {
			to.SetNote(note) // the stream that kept it may have been deleted
		}
		c.now, c.of, c.moved = to, g, true
	}
	c.mu.Unlock()
	if closed {
		_ = to.Close() // the sink was removed meanwhile; its position was saved before
	}
}

func (c *cursor) Note() string {
	now, _ := c.current()
	return now.Note()
}

func (c *cursor) SetNote(note string) {
	now, _ := c.current()
	now.SetNote(note)
}

func (c *cursor) KeepGap(e event.Event) {
	now, _ := c.current()
	now.KeepGap(e)
}

func (c *cursor) current() (journal.Cursor, *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.of
}

// do calls f with the cursor until it succeeds, or fails for good.
func (c *cursor) do(ctx context.Context, f func(now journal.Cursor, g *generation) error) error {
	for {
		now, g := c.current()
		err := f(now, g)
		if err == nil {
			return nil
		}
		if c.isClosed() {
			return journal.ErrClosed
		}
		if err := c.journal.again(ctx, g, err); err != nil {
			return err
		}
	}
}

func (c *cursor) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Read implements [journal.Cursor]. It returns [journal.ErrMoved] once when the journal
// was opened again.
func (c *cursor) Read(ctx context.Context, limit int) (entries []journal.Entry, err error) {
	err = c.do(ctx, func(now journal.Cursor, g *generation) (err error) {
		if c.hasMoved() {
			return journal.ErrMoved
		}
		entries, err = now.Read(ctx, limit)
		for i := range entries {
			if entries[i].Seq > 0 {
				entries[i].Seq += g.base
			}
		}
		return err
	})
	return entries, err
}

func (c *cursor) hasMoved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	moved := c.moved
	c.moved = false
	return moved
}

// Commit implements [journal.Cursor]. What was read from an earlier generation needs none.
func (c *cursor) Commit(ctx context.Context, seq uint64) error {
	now, g := c.current()
	if seq <= g.base {
		return nil
	}
	return now.Commit(ctx, seq-g.base)
}

func (c *cursor) Reset(ctx context.Context) error {
	return c.do(ctx, func(now journal.Cursor, _ *generation) error { return now.Reset(ctx) })
}

func (c *cursor) Rewind(ctx context.Context, since time.Time) (events uint64, err error) {
	err = c.do(ctx, func(now journal.Cursor, _ *generation) (err error) {
		events, err = now.Rewind(ctx, since)
		return err
	})
	return events, err
}

// Rewindable implements [journal.Rewinder].
func (c *cursor) Rewindable() error {
	now, _ := c.current()
	return now.Rewindable()
}

func (c *cursor) Resnapshot(ctx context.Context, what journal.Resnapshot) error {
	return c.do(ctx, func(now journal.Cursor, _ *generation) error { return now.Resnapshot(ctx, what) })
}

func (c *cursor) KeepResnapshots(ctx context.Context, all []journal.Resnapshot) error {
	return c.do(ctx, func(now journal.Cursor, _ *generation) error { return now.KeepResnapshots(ctx, all) })
}

func (c *cursor) KeptResnapshots(ctx context.Context) (all []journal.Resnapshot, err error) {
	err = c.do(ctx, func(now journal.Cursor, _ *generation) (err error) {
		all, err = now.KeptResnapshots(ctx)
		return err
	})
	return all, err
}

func (c *cursor) Lag() journal.Lag {
	now, _ := c.current()
	return now.Lag()
}

func (c *cursor) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return journal.ErrClosed
	}
	c.closed = true
	now, g := c.now, c.of
	c.mu.Unlock()
	j := c.journal
	j.mu.Lock()
	delete(j.cursors, c)
	j.mu.Unlock()
	err := now.Close()
	if errors.Is(err, journal.ErrClosed) && g.journal.Failure() != nil && j.life.Err() == nil {
		return nil // it went with its generation
	}
	return err
}
