// Package wal is the log on disk: records in segments, the index of the last record of each key,
// and the barrier that keeps records from readers until they are synced. It knows what records are,
// and neither sinks nor targets: package journal has the cursors, and says what may be removed.
//
// [Log] is a set of parts, which know each other and not the Log. One lock, that of [Monitor], guards the state of:
//
//	segments  the files          [Keys]  the last record of each key     [Barrier]  what readers may have
//	[Writer]  the next write     [Tail]  the newest events in memory
//
// The others work on these: [Syncer] and [Compactor] write to the disk without holding the lock, and [History],
// [Letters] and [Shipping] read. recovery makes a Log of the files in a directory, before anything is concurrent.
//
// One goroutine syncs and writes index files. Another one, of the owner, compacts. All other calls
// may come from any goroutine.
package wal

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/record"
)

// Options are the settings of a log. SegmentBytes, TailBytes, Hard and Boot are required.
type Options struct {
	// SegmentBytes is the size at which a segment is sealed.
	SegmentBytes int64
	// TailBytes bounds the newest records that stay in memory.
	TailBytes int
	// Hard reports whether an event is hard: no reader has it before it is synced. Other records are synced each second.
	Hard func(*event.Event) bool
	// Unsynced leaves it to the operating system, once the start is synced.
	Unsynced bool
	// Synced is called after each sync with how long that took; nil: nobody asks.
	Synced func(time.Duration)
	// Boot identifies the boot of the machine. A start under another one cannot trust what was
	// not synced.
	Boot string
	// Copied: another process has written the log, and its sinks may have events that are not in it.
	// Stale: it may lack hard events, too.
	Copied, Stale bool
	Logger        *slog.Logger
}

// Entry is an event with its sequence.
type Entry struct {
	Seq   uint64
	Event event.Event
	// Appended is the time of the append.
	Appended time.Time
}

// Log is an open log. Its fields do not change after [Open].
type Log struct {
	// ID identifies the log, and its copies.
	ID string
	// Void: opening has found that records may be lost that had been synced, and it is not known of which objects. No
	// checkpoint counts.
	Void bool
	// Damage is the last sequence of which a start has found that damage may have taken events up to it, 0 without one.
	Damage uint64
	skips  []Skip

	Monitor   *Monitor
	Writer    *Writer
	Syncer    *Syncer
	Barrier   *Barrier
	Keys      *Keys
	Tail      *Tail
	History   *History
	Letters   *Letters
	Compactor *Compactor
	Shipping  *Shipping
	segments  *segments
}

// newLog makes the parts of a log without records. Id and secret are those of its headers.
func newLog(store *store, id, secret [16]byte, o Options) *Log {
	m := &Monitor{failed: make(chan struct{}), news: map[chan<- struct{}]struct{}{}}
	files := &segments{monitor: m, store: store, id: id, secret: secret, numbers: map[uint32]*file{}}
	keys := &Keys{
		monitor: m, hasher: secret, targets: targets{numbers: map[string]uint32{}},
		named: map[record.Hash]*Named{}, letters: boxes{},
	}
	barrier := &Barrier{
		monitor: m, segments: files, keys: keys, wake: make(chan struct{}, 1),
		followers: followers{all: map[string]*follower{}, released: map[string]time.Time{}},
	}
	tail := &Tail{monitor: m, barrier: barrier, most: o.TailBytes}
	writer := &Writer{
		monitor: m, store: store, segments: files, keys: keys, tail: tail, barrier: barrier,
		batch: batch{keys: keys, hard: o.Hard}, segmentBytes: o.SegmentBytes, limit: math.MaxInt64,
		appending: make(chan struct{}, 1),
	}
	syncer := &Syncer{
		monitor: m, store: store, segments: files, keys: keys, barrier: barrier,
		synced: o.Synced, logger: o.Logger, ended: make(chan struct{}),
	}
	return &Log{
		ID: files.logID(), segments: files,
		Monitor: m, Writer: writer, Syncer: syncer, Barrier: barrier, Keys: keys, Tail: tail,
		History: &History{segments: files, keys: keys, tail: tail, barrier: barrier},
		Letters: &Letters{monitor: m, segments: files, keys: keys, writer: writer, syncer: syncer},
		Compactor: &Compactor{
			monitor: m, segments: files, keys: keys, barrier: barrier, syncer: syncer, segmentBytes: o.SegmentBytes,
		},
		Shipping: &Shipping{monitor: m, segments: files, barrier: barrier},
	}
}

// Skip is a range of sequences that were never used, both included.
type Skip struct{ From, To uint64 }

// Skipped counts the sequences of a range, both ends included, that were never used.
func (l *Log) Skipped(from, to uint64) (n uint64) {
	for _, s := range l.skips {
		if low, high := max(from, s.From), min(to, s.To); low <= high {
			n += high - low + 1
		}
	}
	return n
}

// Close syncs, notes the clean end, and closes the files. Blocked calls return [ErrClosed].
func (l *Log) Close(ctx context.Context) error {
	err := l.Syncer.Sync(ctx)
	if errors.Is(err, ErrClosed) {
		return err
	}
	l.Monitor.mu.Lock()
	if err == nil {
		err = l.Writer.put(record.Stop, "", nil, nil, 1)
	}
	_ = l.Monitor.end(ErrClosed) // nothing follows the stop
	l.Monitor.mu.Unlock()
	l.wait()
	defer l.Syncer.closeFiles()
	if err == nil {
		err = l.Syncer.finish()
	}
	return err
}

// Abandon closes the files without any write, as the end of a process does.
func (l *Log) Abandon() {
	l.Monitor.Fail(ErrClosed)
	l.wait()
	l.Syncer.closeFiles()
}

// wait returns when nothing is written any more, after the end.
func (l *Log) wait() {
	l.Syncer.stop()
	<-l.Syncer.ended
	l.Compactor.pass.Lock()
	defer l.Compactor.pass.Unlock()
}
