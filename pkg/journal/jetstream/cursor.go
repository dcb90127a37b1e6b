package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream/internal/eventlog"
	"github.com/informd/informd/pkg/journal/jetstream/internal/record"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
	"github.com/informd/informd/pkg/journal/jetstream/internal/withheld"
)

// cursor is one sink's place in the log.
type cursor struct {
	journal *Journal
	name    string
	opened  time.Time
	news    chan struct{}   // one signal: the log has grown
	life    context.Context //nolint:containedctx // ends with Close
	end     context.CancelCauseFunc
	saving  sync.Mutex    // held while the record is written: the latest comes last
	reader  chan struct{} // has room for the call that uses queue and the sources
	reading *server.Outage

	mu      sync.Mutex
	floor   uint64      // commits below it come too early: the end of a snapshot
	next    uint64      // the first sequence that no source was asked for yet
	record  record.Sink // what was committed; what is to be saved
	saved   record.Sink // what is durable
	batches []batch     // what was read from the stream and is not committed
	// While record.Jumped is set: where the copies of what was jumped over are
	// through at the latest, and the ends behind Jumped that were returned.
	jumpedUntil uint64
	seen        record.Returned
	// dropped are the messages that were left out last, one after the other.
	dropped struct{ from, to uint64 }
	stands  stand

	// Of who has put something into reader:
	queue  []journal.Entry // read ahead
	source source          // where the next entries come from; nil: the tail
	// repeating is what is read in turn with that; nil: nothing.
	repeating *resnapshot
	// withheld is what is read after that; nil: nothing.
	withheld *withheld.Ends
}

// batch tells how old entries are that were read from the stream.
type batch struct {
	last uint64
	at   time.Time // of the first of them
}

// source is where a cursor reads while it is not at the tail.
type source interface {
	// fill returns the next entries, possibly none, and whether they are the last.
	// After an error it may be called again and goes on where it was.
	fill(ctx context.Context) (entries []journal.Entry, done bool, err error)
	close(ctx context.Context)
}

// Open implements [journal.Journal]. It asks the server, for some seconds if it
// must.
func (j *Journal) Open(name string, start journal.Start) (journal.Cursor, error) {
	c := &cursor{journal: j, name: name, opened: time.Now(), news: make(chan struct{}, 1), reader: make(chan struct{}, 1)}
	c.reading = server.NewOutage(j.log.Logger.With(slog.String("sink", name)), "read", nil)
	c.life, c.end = context.WithCancelCause(j.log.Life)
	j.mu.Lock()
	if j.log.Life.Err() != nil {
		j.mu.Unlock()
		return nil, journal.ErrClosed
	}
	if _, ok := j.cursors[name]; ok {
		j.mu.Unlock()
		return nil, fmt.Errorf("open cursor %q: it is already open", name)
	}
	j.cursors[name] = c // with position 0: until it is known, the janitor waits
	j.mu.Unlock()

	ctx, cancel := context.WithTimeout(c.life, 2*server.Timeout)
	defer cancel()
	if err := server.Retry(ctx, j.asking, func(ctx context.Context) error { return c.begin(ctx, start) }); err != nil {
		j.mu.Lock()
		delete(j.cursors, name)
		j.mu.Unlock()
		if j.log.Life.Err() != nil {
			return nil, journal.ErrClosed
		}
		return nil, fmt.Errorf("open cursor %q: %w", name, err)
	}
	j.present(name)
	j.log.Tail.Listen(c.news)
	return c, nil
}

// begin reads the cursor's record, or makes the first one.
func (c *cursor) begin(ctx context.Context, start journal.Start) error {
	j := c.journal
	var p record.Sink
	found, err := j.records.Load(ctx, j.records.Sink(c.name), &p)
	if err != nil {
		return err
	}
	j.look(ctx) // another process may have appended since Open
	now := j.here()
	switch {
	case found && !p.Holds(now):
		err := fmt.Errorf("%w: the cursor of the sink is %d, and the journal ends at %d", ErrLost, p.Last, now.Last)
		j.log.Lose(err)
		return server.Final(err)
	case !found && start == journal.FromNow:
		p = record.Sink{Place: now}
	case !found:
		p = record.Sink{Place: record.Place{Created: now.Created}, Snapshot: now.Last > 0, Since: now.Last}
	}
	open := p
	open.Left = time.Time{}
	c.mu.Lock()
	c.record, c.next = open, p.Last+1
	c.jumpedUntil, c.seen = now.Last, record.ReturnedFrom(p.Returned)
	if found {
		c.saved = p
	}
	c.mu.Unlock()
	if err := c.save(ctx); err != nil {
		return err
	}
	c.beginSnapshot(now.Last)
	return nil
}

// beginSnapshot makes a snapshot the source, as of the sequence end, if the sink has
// not got all of one. Else a loss before may still count.
func (c *cursor) beginSnapshot(end uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Snapshot {
		c.source = newSnapshot(c, end, c.record.Since)
		c.floor, c.next = end, end+1
		return
	}
	c.withheld = c.withheldBefore()
}

// acquire waits until no other call uses queue and the sources. Bounded also ends with the
// cursor.
func (c *cursor) acquire(ctx context.Context) (bounded context.Context, release func(), err error) {
	if err := c.usable(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := eventlog.Both(ctx, c.life)
	select {
	case c.reader <- struct{}{}:
		return bounded, func() { <-c.reader; cancel() }, nil
	case <-bounded.Done():
		defer cancel()
		return nil, nil, c.cause(ctx, bounded.Err())
	}
}

// Reset implements [journal.Cursor].
func (c *cursor) Reset(ctx context.Context) error {
	_, release, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	c.forget(ctx)
	c.mu.Lock()
	c.again(c.record.Last + 1)
	c.mu.Unlock()
	c.beginSnapshot(c.journal.log.Tail.End())
	return nil
}

// again has everything from next on read again, and what is left out decided again: a copy
// counts if its original was to come again and is gone. It is called with the lock held.
func (c *cursor) again(next uint64) {
	c.next, c.floor, c.batches = next, 0, nil
	c.seen.Before(next)
	c.dropped.from, c.dropped.to = 0, 0
}

// Read implements [journal.Cursor]. It tries for as long as it takes: beside those
// of ctx, of the fence and [journal.ErrClosed] the only errors are [ErrLost] and that of a
// connection that was closed.
func (c *cursor) Read(ctx context.Context, limit int) ([]journal.Entry, error) {
	bounded, release, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	entries, err := c.read(bounded, max(limit, 1))
	if c.repeating != nil {
		repeats := c.repeating.returned(entries)
		c.rename(repeats)
		c.queue = append(repeats, c.queue...)
	}
	c.withheld.Detain(entries)
	return entries, c.cause(ctx, err)
}

// cause says why a call failed: ctx is the caller's.
func (c *cursor) cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil && c.life.Err() != nil {
		return journal.ErrClosed
	}
	return c.journal.log.Cause(ctx, err)
}

// usable returns why a call cannot even begin.
func (c *cursor) usable(ctx context.Context) error {
	if c.life.Err() != nil {
		return journal.ErrClosed
	}
	return ctx.Err()
}

func (c *cursor) read(ctx context.Context, limit int) ([]journal.Entry, error) {
	var pause server.Backoff
	for {
		if err := c.journal.log.Allowed(); err != nil {
			return nil, err
		}
		if entries := c.dequeue(limit); len(entries) > 0 {
			return entries, nil
		}
		from := c.turn()
		if from == nil {
			entries, err := c.readTail(ctx, limit)
			if err != nil || len(entries) > 0 {
				return entries, err
			}
			continue
		}
		entries, done, err := from.fill(ctx)
		switch {
		case err == nil:
			c.reading.Over()
			pause = server.Backoff{}
			c.enqueue(entries)
			if done {
				c.through(ctx, from)
			}
		case ctx.Err() != nil:
			return nil, ctx.Err()
		default:
			c.reading.Begin(err)
			if err := pause.Wait(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// readTail returns what the tail has, waits if it has nothing, or makes the stream
// the source if the tail is too far ahead.
func (c *cursor) readTail(ctx context.Context, limit int) ([]journal.Entry, error) {
	c.mu.Lock()
	next := c.next
	c.mu.Unlock()
	entries, copies, behind := c.journal.log.Tail.Take(next, limit)
	switch {
	case behind > 0:
		c.source = newCatchup(c, next)
	case len(entries) > 0:
		c.passed(entries[len(entries)-1].Seq)
		entries = c.withheld.Withhold(c.admitAll(entries, copies), true)
		c.rename(entries)
	default:
		select {
		case <-c.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return entries, nil
}

// turn is the source to read from now; nil: the tail.
func (c *cursor) turn() source {
	c.mu.Lock()
	next, rewound := c.next, c.record.Until
	c.mu.Unlock()
	if c.repeating != nil {
		if c.repeating.due(next, rewound, c.source != nil || next <= c.journal.log.Tail.End()) {
			return c.repeating
		}
	}
	return c.source
}

// through gives up a source that has no more.
func (c *cursor) through(ctx context.Context, s source) {
	s.close(ctx)
	if s == c.source {
		c.source = nil
	} else {
		c.repeating = nil
	}
}

// forget gives up what was read ahead, and where that came from.
func (c *cursor) forget(ctx context.Context) {
	if c.source != nil {
		c.source.close(ctx)
	}
	if c.repeating != nil {
		c.repeating.close(ctx)
	}
	c.queue, c.source, c.repeating, c.withheld = nil, nil, nil, nil
}

// enqueue takes over what a source has read.
func (c *cursor) enqueue(entries []journal.Entry) {
	c.rename(entries)
	c.queue = append(c.queue, entries...)
}

// dequeue returns what was read ahead and is not committed, and after it withheld ends of
// snapshots.
func (c *cursor) dequeue(limit int) []journal.Entry {
	c.mu.Lock()
	committed, next := c.record.Last, c.next
	c.mu.Unlock()
	for len(c.queue) > 0 && c.queue[0].Seq != 0 && c.queue[0].Seq <= committed {
		c.queue = c.queue[1:]
	}
	if len(c.queue) == 0 && c.withheld.Due(next) {
		if e, ok := c.withheld.Next(next - 1); ok {
			c.enqueue([]journal.Entry{e})
		} else {
			c.withheld = nil
		}
	}
	n := min(limit, len(c.queue))
	entries := c.queue[:n:n]
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil
	}
	return entries
}

// passed says that everything up to seq was read.
func (c *cursor) passed(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = max(c.next, seq+1)
}

// Close implements [journal.Cursor]. It saves the position if the server answers
// within some seconds. A Read under way ends.
func (c *cursor) Close() error {
	j := c.journal
	j.mu.Lock()
	if c.life.Err() != nil {
		j.mu.Unlock()
		return journal.ErrClosed
	}
	c.end(journal.ErrClosed)
	j.mu.Unlock()
	c.leave()
	c.finish(context.WithoutCancel(c.life))
	c.left()
	return nil
}

// finish saves the position and gives back what reading took. The cursor's life
// has ended, so that a Read under way ends, too.
func (c *cursor) finish(ctx context.Context) {
	j := c.journal
	j.log.Tail.Mute(c.news)
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	if j.log.Loss() == nil { // else the record is another process's, or its stream is missing
		err := c.save(ctx)
		if err != nil && ctx.Err() == nil {
			err = c.save(ctx) // an attempt is short
		}
		if err != nil {
			j.log.Logger.Warn("cursor not saved; the sink gets recent events again", "sink", c.name, "err", err)
		}
	}
	select {
	case c.reader <- struct{}{}:
	case <-ctx.Done():
		return
	}
	c.forget(ctx)
	<-c.reader
}
