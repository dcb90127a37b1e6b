package wal

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
)

const (
	// writeBytes and writeEvents bound what one call of the disk writes.
	writeBytes  = 1 << 20
	writeEvents = 128
	// fullPause is that of [Writer.Pause].
	fullPause = time.Second
)

// Writer appends records to the active segment, and then to [Keys] and [Tail]. The log's lock guards batch and limit.
type Writer struct {
	monitor  *Monitor
	store    *store
	segments *segments
	keys     *Keys
	tail     *Tail
	barrier  *Barrier

	segmentBytes int64
	appending    chan struct{} // holds a value while an Append is in progress
	batch        batch
	limit        int64         // of the bytes of all segments
	blocked      atomic.Int64  // calls of Append that wait for space
	appended     atomic.Uint64 // bytes of records
}

// Append adds events, and returns when they were written. They follow each other without another
// event in between. It waits while the log is at its limit, or the disk is full. If ctx ends
// first, it returns the error of ctx, and a leading part of the events may be in the log. Nothing
// of the events is kept but strings and Unchanged.
func (w *Writer) Append(ctx context.Context, events []event.Event) error {
	return w.append(ctx, record.Event, events)
}

// Forget has the log forget objects, each named as by an event of its target: they have no last event any more. It
// returns when that is written, behind all events before, and blocks as Append does. No reader sees it. Objects whose
// last event is a terminal one, or of another target, stay as they are.
func (w *Writer) Forget(ctx context.Context, objects []event.Event) error {
	return w.append(ctx, record.Forgotten, objects)
}

// append takes the lock.
func (w *Writer) append(ctx context.Context, kind record.Kind, events []event.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.appending <- struct{}{}:
		defer func() { <-w.appending }()
	case <-ctx.Done():
		return ctx.Err()
	case <-w.monitor.failed:
		return w.monitor.Failure()
	}
	for {
		n, err := w.appendSome(kind, events)
		if events = events[n:]; len(events) == 0 || err != nil && !disk.IsFull(err) {
			return err
		}
		if n > 0 {
			continue
		}
		if err := w.awaitSpace(ctx, err != nil); err != nil {
			return err
		}
	}
}

// awaitSpace takes the lock, and waits for space in the log, or for a moment if the disk is full.
func (w *Writer) awaitSpace(ctx context.Context, full bool) error {
	w.blocked.Add(1)
	defer w.blocked.Add(-1)
	if full {
		return w.Pause(ctx)
	}
	return w.monitor.waitFor(ctx, func() bool { return w.segments.bytes < w.limit })
}

// Pause is the time between two attempts on a full disk.
func (w *Writer) Pause(ctx context.Context) error {
	pause, cancel := context.WithTimeout(ctx, fullPause)
	defer cancel()
	if err := w.monitor.waitFor(pause, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return ctx.Err()
}

// appendSome takes the lock, and adds the first of the events, none if the log is at its limit.
func (w *Writer) appendSome(kind record.Kind, events []event.Event) (n int, err error) {
	w.monitor.mu.Lock()
	defer w.monitor.mu.Unlock()
	if w.monitor.err != nil || len(events) == 0 || w.segments.bytes >= w.limit {
		return 0, w.monitor.err
	}
	size, few := 0, 0
	for few < len(events) && few < writeEvents && (few == 0 || size+encodedSize(&events[few]) <= writeBytes) {
		size += encodedSize(&events[few])
		few++
	}
	at := time.Now().UnixMicro()
	if err := w.begin(size); err != nil {
		return 0, err
	}
	for i := range events[:few] {
		if kind == record.Forgotten {
			err = w.batch.stageForgotten(&events[i], at)
		} else {
			err = w.batch.stageEvent(&events[i], w.keys.last+1+uint64(i), at)
		}
		if err != nil {
			return 0, w.monitor.end(fmt.Errorf("append %s of %s: %w", events[i].Op, events[i].Target, err))
		}
	}
	if err := w.write(at); err != nil {
		return 0, err
	}
	return few, nil
}

// encodedSize estimates the bytes of an event's record from above, for most events.
func encodedSize(e *event.Event) int {
	return record.HeaderSize + 256 + len(e.Data) + len(e.ID) + len(e.Name) + len(e.Namespace) + len(e.UID)
}

// begin prepares a write of size bytes: it ends a full segment.
func (w *Writer) begin(size int) error {
	if w.segments.active().size >= w.segmentBytes {
		if err := w.segments.create(w.keys.last+1, 0); err != nil {
			return w.failed(err)
		}
	}
	w.batch.begin(size)
	return nil
}

// failed makes the error of a write final, unless the disk is full.
func (w *Writer) failed(err error) error {
	if disk.IsFull(err) {
		return err
	}
	return w.monitor.end(diskFailed(err))
}

// write appends what is staged to the active segment, and then to the index and the tail. If the
// disk is full, nothing of it is in the log.
func (w *Writer) write(at int64) error {
	active, bytes := w.segments.active(), w.batch.bytes()
	if err := w.store.writeAt(active.open, bytes, active.size); err != nil {
		w.batch.block = w.batch.block[:len(w.batch.block)-len(bytes)]
		return w.failed(err)
	}
	w.appended.Add(uint64(len(bytes)))
	hard := uint64(0)
	for i := range w.batch.staged {
		s := &w.batch.staged[i]
		w.take(active, s, at)
		if hard == 0 && s.entry.Flags.Has(record.Hard) {
			hard = s.entry.Seq
		}
	}
	if hard != 0 {
		w.barrier.withhold(hard)
	}
	w.monitor.signal()
	return nil
}

// take makes a written record part of the log.
func (w *Writer) take(active *file, s *staged, at int64) {
	offset := active.index.Size
	active.index.Add(s.entry, s.namespace, s.head)
	active.size += int64(s.entry.Size)
	w.segments.bytes += int64(s.entry.Size)
	w.keys.apply(active, &s.entry, offset, s.target, s.named)
	if s.event == nil {
		return
	}
	e := Entry{Seq: s.entry.Seq, Event: *s.event, Appended: time.UnixMicro(at)}
	e.Event.Data = s.data
	w.tail.add(e)
}

// Put appends the newest value of a name. It returns when that is written, and not when it is
// synced. It does not wait for space: these records are small, and the log needs them to make space.
func (w *Writer) Put(kind record.Kind, name string, value []byte) error {
	w.monitor.mu.Lock()
	defer w.monitor.mu.Unlock()
	return w.put(kind, name, value, nil, 1)
}

// put appends a record that is no event.
func (w *Writer) put(kind record.Kind, name string, value, data []byte, count uint32) error {
	if w.monitor.err != nil {
		return w.monitor.err
	}
	if err := w.begin(record.HeaderSize + 32 + len(name) + len(value) + len(data)); err != nil {
		return err
	}
	at := time.Now().UnixMicro()
	if err := w.batch.stageNamed(kind, name, value, data, count, at); err != nil {
		return err
	}
	return w.write(at)
}

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
func (w *Writer) Stats() Stats {
	w.monitor.mu.Lock()
	defer w.monitor.mu.Unlock()
	return Stats{
		Events: w.keys.events, Bytes: w.segments.bytes, Limit: w.limit,
		Blocked: int(w.blocked.Load()), Written: w.store.written.Load(), Appended: w.appended.Load(),
	}
}

// SetLimit sets how many bytes all segments may have. Append waits above it.
func (w *Writer) SetLimit(bytes int64) {
	w.monitor.mu.Lock()
	defer w.monitor.mu.Unlock()
	if bytes > w.limit {
		w.monitor.signal()
	}
	w.limit = bytes
}
