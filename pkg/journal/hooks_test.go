package journal

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// OpenOn opens a journal on any disk, without its goroutines but the one that syncs. Segments and the
// tail have so many bytes.
func OpenOn(d disk.Dir, c Config, boot string, segment int64) (*Journal, error) {
	c.segment = segment
	return openOn(d, c.withDefaults(), boot)
}

// Hasty has a journal wait less for its disk: State for so long, and Close for a third.
func Hasty(c *Config, patience time.Duration) { c.patience = patience }

// Kill ends a journal as the end of its process does.
func Kill(j *Journal) { j.log.Abandon() }

// Alone ends the time in which sinks of an earlier process count as open.
func Alone(j *Journal) { j.opened = time.Time{} }

// Save writes the positions of all cursors.
func Save(j *Journal) error {
	for _, c := range j.open() {
		if err := c.save(); err != nil {
			return err
		}
	}
	return nil
}

// SyncAll makes all durable that was appended.
func SyncAll(ctx context.Context, j *Journal) error { return j.log.Syncer.Sync(ctx) }

// Compact removes what is not needed where much of a segment is not.
func Compact(ctx context.Context, j *Journal, short bool) error { return j.removeUnneeded(ctx, short) }

// Clear removes all that is not needed, not just where much of a segment is not.
func Clear(ctx context.Context, j *Journal, short bool) error {
	p, err := j.policy(ctx, short)
	if p == nil || err != nil {
		return err
	}
	return j.log.Compactor.Compact(p, 100)
}

// DuringAPass is Clear, and calls do once it is decided what goes, and before it does.
func DuringAPass(ctx context.Context, j *Journal, do func()) error {
	j.compacting.Lock()
	defer j.compacting.Unlock()
	p, err := j.policy(ctx, false)
	if err != nil {
		return err
	}
	do()
	return j.log.Compactor.Compact(p, 100)
}

// Cursors is how many are open.
func Cursors(j *Journal) int { return len(j.open()) }

// SetLimit sets how large the log may be.
func SetLimit(j *Journal, bytes int64) { j.log.Writer.SetLimit(bytes) }

// LogStats are the statistics of the log below.
func LogStats(j *Journal) wal.Stats { return j.log.Writer.Stats() }

// Events reads all of the log.
func Events(j *Journal) ([]wal.Entry, error) {
	r := j.log.History.NewReader(0)
	defer r.Close()
	return r.Next(j.log.Keys.Last(), 1<<30)
}

// Position is the committed sequence of a cursor, and whether its first snapshot is not complete.
func Position(c *Cursor) (seq uint64, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.position.Seq, c.position.Snapshot
}

// Poll is Read without waiting: it returns nothing if there is nothing yet.
func Poll(ctx context.Context, c *Cursor, limit int) ([]Entry, error) {
	release, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return c.poll(limit)
}

// UpTo is the part of a Read behind the look at what is readable.
func UpTo(c *Cursor, to uint64) ([]Entry, error) { return c.upTo(to, 100) }

// Readable is the newest sequence that may be read.
func Readable(j *Journal) uint64 { return j.log.Barrier.Readable() }

// WithSegment sets the size of segments, in bytes.
func WithSegment(c Config, size int64) Config {
	c.segment = size
	return c
}

// Crash ends a journal in a directory as the end of its process does.
func Crash(j *Journal) error {
	j.log.Abandon()
	j.stop()
	j.done.Wait()
	return j.dir.Close()
}
