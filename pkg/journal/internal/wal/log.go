// Package wal is the log on disk: records in segments, the index of the last record of each key,
// and the barrier that keeps records from readers until they are synced. It knows what records are,
// and neither sinks nor targets: package journal has the cursors, and says what may be removed.
//
// One goroutine syncs and writes index files. Another one, of the owner, compacts. All other calls
// may come from any goroutine.
package wal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// ErrClosed is the error of every call of a closed log.
var ErrClosed = errors.New("journal is closed")

// ErrDamaged says that a segment has invalid bytes behind what was synced. The log must be opened
// again, which removes them.
var ErrDamaged = errors.New("the log is damaged; the next start leaves the damage out and declares what is missing")

// Sync says when records are durable.
type Sync string

const (
	// SyncRows syncs hard records before they are read, and others each second.
	SyncRows Sync = "rows"
	// SyncAlways makes every record hard.
	SyncAlways Sync = "always"
	// SyncNever leaves it to the operating system, once the start is synced.
	SyncNever Sync = "never"
)

// Options are the settings of a log. SegmentBytes, TailBytes, Sync and Boot are required.
type Options struct {
	// SegmentBytes is the size at which a segment is sealed.
	SegmentBytes int64
	// TailBytes bounds the newest records that stay in memory.
	TailBytes int
	Sync      Sync
	// Hard reports whether an event is hard; nil: none is.
	Hard func(*event.Event) bool
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

// place is a position between two records.
type place struct {
	segment uint32 // its number
	offset  int64
}

func (p place) before(other place) bool {
	return p.segment < other.segment || p.segment == other.segment && p.offset < other.offset
}

// file is a segment of the open log.
type file struct {
	segment.Header

	size int64
	// open and index are set until the index file is written.
	open  disk.File
	index *segment.Index
	parts []segment.Part // of the index file
	sum   uint32         // the index file ends with it
	held  int            // calls that read it; it is not removed meanwhile
}

func (f *file) place(e *segment.Entry) place { return place{f.Number, int64(e.Offset)} }

// end is the place behind a segment.
func (f *file) end() place { return place{f.Number, f.size} }

// Log is an open log.
type Log struct {
	dir     disk.Dir
	options Options
	id      [16]byte
	secret  [16]byte
	// Void: opening has found that records may be lost that had been synced, and it is not known of which objects. No
	// checkpoint counts.
	Void   bool
	broken []segment.Name // segments of which nothing counts, to be removed when that is declared
	cut    []*file        // those of which the end does not count, to be written again then

	appending  chan struct{} // holds a value while an Append is in progress
	wake       chan struct{} // one signal for the syncing goroutine
	failed     chan struct{}
	ended      chan struct{}      // the syncing goroutine has ended
	stop       context.CancelFunc // nil before the end of the start
	noting     disk.File          // of what is synced; of the syncing goroutine, and nil before the first sync
	syncing    disk.Stopwatch
	compacting sync.Mutex // held by Compact, and taken before the files are closed

	mu        sync.Mutex
	err       error // final
	files     []*file
	numbers   map[uint32]*file
	replaced  []*file // to be removed when no call reads them
	hasher    *record.Hasher
	table     table
	targets   targets
	named     map[record.Hash]*Named
	letters   map[string]*box
	last      uint64 // sequence of the newest event
	skips     []Skip
	damage    uint64 // see start
	checked   uint32 // see start
	bytes     int64  // of all segments
	events    uint64
	limit     int64
	block     []byte // of the newest records
	staged    []staged
	tail      tail
	synced    place
	before    place      // up to where earlier processes have synced, as they have noted
	syncTo    place      // what the last sync covers, which may be in progress
	withheld  []withheld // in order
	news      map[chan<- struct{}]struct{}
	version   uint64               // of the list of files
	followers map[string]*follower // that hard events wait for
	released  map[string]time.Time // when followers were too slow
	settling  int                  // calls of Settle
	// blocked counts calls of Append that wait for space.
	blocked atomic.Int64
	// written counts all bytes that were written to files, and appended those of records that were appended.
	written, appended atomic.Uint64
}

// Skip is a range of sequences that were never used, both included.
type Skip struct{ From, To uint64 }

// Named is the newest record of a name: the checkpoint of a target, or what a sink keeps.
type Named struct {
	Kind  record.Kind
	Name  string
	Value []byte
	// Seq is the sequence of the event before it. The checkpoint of a target that is below [Log.Damage] is void: the
	// log has lost records that it may count on.
	Seq uint64
}

func newLog(d disk.Dir, o Options) *Log {
	return &Log{
		dir: d, options: o,
		appending: make(chan struct{}, 1), wake: make(chan struct{}, 1), failed: make(chan struct{}), ended: make(chan struct{}),
		numbers: map[uint32]*file{}, named: map[record.Hash]*Named{}, letters: map[string]*box{},
		targets: targets{numbers: map[string]uint32{}},
		limit:   1<<63 - 1, tail: tail{most: o.TailBytes},
		news: map[chan<- struct{}]struct{}{}, followers: map[string]*follower{}, released: map[string]time.Time{},
	}
}

// Close syncs, notes the clean end, and closes the files. Blocked calls return [ErrClosed].
func (l *Log) Close(ctx context.Context) error {
	err := l.Sync(ctx)
	if errors.Is(err, ErrClosed) {
		return err
	}
	l.mu.Lock()
	if err == nil {
		err = l.put(record.Stop, "", nil, nil, 1)
	}
	l.endLocked(ErrClosed) // nothing follows the stop
	l.mu.Unlock()
	l.wait()
	defer l.closeFiles()
	if err == nil {
		err = l.syncAll()
	}
	if err != nil {
		return err
	}
	// With an index file of the last segment, the next start need not scan it.
	if err = l.seal(l.active()); disk.IsFull(err) {
		return nil
	}
	return errors.Join(err, l.sync(l.dir))
}

// Abandon closes the files without any write, as the end of a process does.
func (l *Log) Abandon() {
	l.Fail(ErrClosed)
	l.wait()
	l.closeFiles()
}

// wait returns when nothing is written any more, after the end.
func (l *Log) wait() {
	l.stop()
	<-l.ended
	l.compacting.Lock()
	defer l.compacting.Unlock()
}

// closeFiles closes what is open. No other call may be in progress but reads.
func (l *Log) closeFiles() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		l.closeFile(f)
	}
	if l.noting != nil {
		_ = l.noting.Close()
		l.noting = nil
	}
}

// closeFile closes a file that is synced, or whose content is lost anyway.
func (l *Log) closeFile(f *file) {
	if f.open != nil {
		_ = f.open.Close()
		f.open = nil
	}
}

// Fail makes err the error of all further calls, unless there is one.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(err)
}

func (l *Log) endLocked(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	close(l.failed)
	l.signal()
}

// fail makes a failed call of the disk final: what is on it is not known any more.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failLocked(err)
}

func (l *Log) failLocked(err error) error {
	l.endLocked(fmt.Errorf("the journal's disk has failed: %w", err))
	return l.err
}

// Failed is closed when the log takes no more calls; [Log.Failure] is the reason.
func (l *Log) Failed() <-chan struct{} { return l.failed }

// Failure is nil while the log is usable, and [ErrClosed] after Close.
func (l *Log) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Listen registers a channel of capacity 1, which gets a signal when a reader may get more.
func (l *Log) Listen(news chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news[news] = struct{}{}
}

// Mute ends Listen.
func (l *Log) Mute(news chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.news, news)
}

func (l *Log) signal() {
	for news := range l.news {
		signal(news)
	}
}

// waitFor returns when done, which is called with the lock held, reports true: now, or after a change that
// [Log.Listen] signals.
func (l *Log) waitFor(ctx context.Context, done func() bool) error {
	news := make(chan struct{}, 1)
	l.Listen(news)
	defer l.Mute(news)
	for {
		l.mu.Lock()
		is, err := done(), l.err
		l.mu.Unlock()
		if err != nil || is {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// signal leaves a signal in a channel of capacity 1, unless one is there.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ID identifies the log, and its copies.
func (l *Log) ID() string { return hex.EncodeToString(l.id[:]) }

// Last is the newest sequence: of an event, or of a range that was skipped; 0 without one.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Readable is the newest sequence that may be read.
func (l *Log) Readable() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readable()
}

func (l *Log) readable() uint64 {
	if len(l.withheld) > 0 {
		return l.withheld[0].seq - 1
	}
	return l.last
}

// Skipped counts the sequences of a range, both ends included, that were never used.
func (l *Log) Skipped(from, to uint64) (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.skips {
		if low, high := max(from, s.From), min(to, s.To); low <= high {
			n += high - low + 1
		}
	}
	return n
}

// Damage is the last sequence of which a start has found that damage may have taken events up to it, 0 without one.
func (l *Log) Damage() uint64 { return l.damage }

// Stats describes a log.
type Stats struct {
	// Events and Bytes are its content, and Limit is that of Bytes.
	Events uint64
	Bytes  int64
	Limit  int64
	// Blocked is the number of Append calls that wait for space.
	Blocked int
	// Written and Appended are bytes since the start: of all writes, and of appended records.
	Written, Appended uint64
}

// Stats returns the present numbers.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Events: l.events, Bytes: l.bytes, Limit: l.limit, Blocked: int(l.blocked.Load()), Written: l.written.Load(), Appended: l.appended.Load()}
}

// SetLimit sets how many bytes all segments may have. Append waits above it.
func (l *Log) SetLimit(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes > l.limit {
		l.signal()
	}
	l.limit = bytes
}
