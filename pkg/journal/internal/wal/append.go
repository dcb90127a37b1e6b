package wal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

const (
	// blockSize is the memory that records are encoded into, in bytes. A block is never
	// overwritten: readers keep parts of it. A write of more than a quarter has its own.
	blockSize = 256 << 10
	// writeBytes and writeEvents bound what one call of the disk writes.
	writeBytes  = 1 << 20
	writeEvents = 128
	// fullPause is that of [Log.Pause].
	fullPause = time.Second
)

// staged is a record that is encoded and not in the log yet.
type staged struct {
	entry     segment.Entry
	target    string
	namespace string
	head      []byte
	data      []byte // in the block
	event     *event.Event
	named     *Named
}

// Append adds events, and returns when they were written. They follow each other without another
// event in between. It waits while the log is at its limit, or the disk is full. If ctx ends
// first, it returns the error of ctx, and a leading part of the events may be in the log. Nothing
// of the events is kept but strings and Unchanged.
func (l *Log) Append(ctx context.Context, events []event.Event) error {
	return l.append(ctx, record.Event, events)
}

// Forget has the log forget objects, each named as by an event of its target: they have no last event any more. It
// returns when that is written, behind all events before, and blocks as Append does. No reader sees it. Objects whose
// last event is a terminal one, or of another target, stay as they are.
func (l *Log) Forget(ctx context.Context, objects []event.Event) error {
	return l.append(ctx, record.Forgotten, objects)
}

func (l *Log) append(ctx context.Context, kind record.Kind, events []event.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.appending <- struct{}{}:
		defer func() { <-l.appending }()
	case <-ctx.Done():
		return ctx.Err()
	case <-l.failed:
		return l.Failure()
	}
	for {
		n, err := l.appendSome(kind, events)
		if events = events[n:]; len(events) == 0 || err != nil && !disk.IsFull(err) {
			return err
		}
		if n > 0 {
			continue
		}
		if err := l.awaitSpace(ctx, err != nil); err != nil {
			return err
		}
	}
}

// awaitSpace waits for space in the log, or for a moment if the disk is full.
func (l *Log) awaitSpace(ctx context.Context, full bool) error {
	l.blocked.Add(1)
	defer l.blocked.Add(-1)
	if full {
		return l.Pause(ctx)
	}
	return l.waitFor(ctx, func() bool { return l.bytes < l.limit })
}

// Pause is the time between two attempts on a full disk.
func (l *Log) Pause(ctx context.Context) error {
	pause, cancel := context.WithTimeout(ctx, fullPause)
	defer cancel()
	if err := l.waitFor(pause, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return ctx.Err()
}

// appendSome adds the first of the events, none if the log is at its limit.
func (l *Log) appendSome(kind record.Kind, events []event.Event) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || len(events) == 0 || l.bytes >= l.limit {
		return 0, l.err
	}
	size, few := 0, 0
	for few < len(events) && few < writeEvents && (few == 0 || size+encodedSize(&events[few]) <= writeBytes) {
		size += encodedSize(&events[few])
		few++
	}
	at := time.Now().UnixMicro()
	if err := l.begin(size); err != nil {
		return 0, err
	}
	for i := range events[:few] {
		if kind == record.Forgotten {
			err = l.stageForgotten(&events[i], at)
		} else {
			err = l.stageEvent(&events[i], l.last+1+uint64(i), at)
		}
		if err != nil {
			l.endLocked(fmt.Errorf("append %s of %s: %w", events[i].Op, events[i].Target, err))
			return 0, l.err
		}
	}
	if err := l.write(at); err != nil {
		return 0, err
	}
	return few, nil
}

// encodedSize estimates the bytes of an event's record from above, for most events.
func encodedSize(e *event.Event) int {
	return record.HeaderSize + 256 + len(e.Data) + len(e.ID) + len(e.Name) + len(e.Namespace) + len(e.UID)
}

// begin prepares a write of size bytes: it ends a full segment.
func (l *Log) begin(size int) error {
	l.staged = l.staged[:0]
	if l.active().size >= l.options.SegmentBytes {
		if err := l.create(); err != nil {
			return l.writeFailed(err)
		}
	}
	// One write takes one piece of memory.
	if cap(l.block)-len(l.block) < size {
		if size <= blockSize/4 {
			size = blockSize
		}
		l.block = make([]byte, 0, size)
	}
	return nil
}

// writeFailed makes the error of a write final, unless the disk is full.
func (l *Log) writeFailed(err error) error {
	if disk.IsFull(err) {
		return err
	}
	return l.failLocked(err)
}

func (l *Log) active() *file { return l.files[len(l.files)-1] }

// count is the number of the next event of a key.
func (l *Log) count(k record.Hash) uint32 {
	for _, s := range slices.Backward(l.staged) {
		if s.entry.Key == k {
			return s.entry.Count + 1
		}
	}
	return l.table.get(k).Count + 1
}

func (l *Log) stageEvent(e *event.Event, seq uint64, at int64) error {
	s := staged{target: e.Target, namespace: e.Namespace, event: e}
	s.entry = segment.Entry{Key: l.hasher.Event(e), Seq: seq, Time: at, Kind: record.Event}
	s.entry.Count = l.count(s.entry.Key)
	switch {
	case e.Op.Control():
		s.entry.Flags |= record.Control
	case e.Op.Ends():
		s.entry.Flags |= record.Ends
	case e.Reannounced():
		s.entry.Flags |= record.Again
	}
	if l.options.Sync == SyncAlways || l.options.Sync == SyncRows && l.options.Hard != nil && l.options.Hard(e) {
		s.entry.Flags |= record.Hard
	}
	var scratch [512]byte
	return l.encode(&s, record.AppendEvent(scratch[:0], e, at), e.Data)
}

// stageForgotten stages that the last event of an object counts no longer.
func (l *Log) stageForgotten(of *event.Event, at int64) error {
	key := l.hasher.Event(of)
	last := l.table.get(key)
	if last.Kind != record.Event || last.Flags.Has(record.Ends) || last.Target != l.targets.number(of.Target) {
		return nil
	}
	e := event.Event{
		Time: time.UnixMicro(at), Target: of.Target, Group: of.Group, Resource: of.Resource, Namespace: of.Namespace, Name: of.Name,
		UID: of.UID, ResourceVersion: of.ResourceVersion,
	}
	s := staged{target: e.Target, namespace: e.Namespace}
	s.entry = segment.Entry{Key: key, Seq: l.last, Time: at, Kind: record.Forgotten, Flags: record.Ends, Count: l.count(key)}
	return l.encode(&s, record.AppendEvent(nil, &e, at), nil)
}

// keyOf is the key of a record that is no event.
func (l *Log) keyOf(kind record.Kind, name string, count uint32) record.Hash {
	if kind == record.Letter || kind == record.LetterDropped {
		return l.hasher.Letter(name, count)
	}
	return l.hasher.Record(kind, name)
}

// stage stages a record of a name.
func (l *Log) stage(kind record.Kind, name string, value, data []byte, count uint32, at int64) error {
	s := staged{named: &Named{Kind: kind, Name: name, Value: slices.Clone(value)}}
	s.entry = segment.Entry{Key: l.keyOf(kind, name, count), Seq: l.last, Time: at, Kind: kind, Count: count}
	if kind == record.LetterDropped {
		s.entry.Flags = record.Ends
	}
	return l.encode(&s, record.AppendNamed(nil, name, value), data)
}

// encode puts the record of s at the end of the block.
func (l *Log) encode(s *staged, head, data []byte) (err error) {
	from := len(l.block)
	l.block, err = record.Append(l.block, &record.Record{
		Kind: s.entry.Kind, Flags: s.entry.Flags, Seq: s.entry.Seq, Time: s.entry.Time, Count: s.entry.Count, Head: head, Data: data,
	})
	if err != nil {
		return err
	}
	s.entry.Size = uint32(len(l.block) - from)
	s.head = l.block[from+record.HeaderSize:][:len(head):len(head)]
	if data != nil {
		s.data = l.block[len(l.block)-len(data) : len(l.block) : len(l.block)]
	}
	l.staged = append(l.staged, *s)
	return nil
}

// write appends what is staged to the active segment, and then to the index and the tail. If the
// disk is full, nothing of it is in the log.
func (l *Log) write(at int64) error {
	size := 0
	for i := range l.staged {
		size += int(l.staged[i].entry.Size)
	}
	active := l.active()
	if err := l.writeAt(active.open, l.block[len(l.block)-size:], active.size); err != nil {
		l.block = l.block[:len(l.block)-size]
		return l.writeFailed(err)
	}
	l.appended.Add(uint64(size))
	hard := uint64(0)
	for i := range l.staged {
		l.take(active, &l.staged[i], at)
		if hard == 0 && l.staged[i].entry.Flags.Has(record.Hard) {
			hard = l.staged[i].entry.Seq
		}
	}
	if hard != 0 {
		l.withhold(hard)
	}
	l.signal()
	return nil
}

// writeAt writes all of b or, on a full disk, nothing.
func (l *Log) writeAt(f disk.File, b []byte, at int64) error {
	n, err := f.WriteAt(b, at)
	l.written.Add(uint64(n))
	if disk.IsFull(err) {
		if cutErr := f.Truncate(at); cutErr != nil {
			return cutErr
		}
	}
	return err
}

// take makes a written record part of the log.
func (l *Log) take(active *file, s *staged, at int64) {
	offset := active.index.Size
	active.index.Add(s.entry, s.namespace, s.head)
	active.size += int64(s.entry.Size)
	l.bytes += int64(s.entry.Size)
	l.apply(active, &s.entry, offset, s.target, s.named)
	if s.event == nil {
		return
	}
	e := Entry{Seq: s.entry.Seq, Event: *s.event, Appended: time.UnixMicro(at)}
	e.Event.Data = s.data
	l.tail.add(e)
}

// apply updates the index by a record, as it is written or found at the start.
func (l *Log) apply(f *file, e *segment.Entry, offset uint32, target string, named *Named) {
	l.last = max(l.last, e.Seq)
	place := Last{Seq: e.Seq, Segment: f.Number, Offset: offset, Size: e.Size, Count: e.Count, Kind: e.Kind, Flags: e.Flags}
	switch e.Kind {
	case record.Event, record.Forgotten:
		if e.Kind == record.Event {
			l.events++
		}
		place.Target = l.targets.number(target)
	case record.Letter, record.LetterDropped:
		l.applyLetter(e.Kind, named.Name, e.Count, e.Key, e.Size)
	default:
		named.Seq = e.Seq
		l.named[e.Key] = named
	}
	l.table.set(e.Key, place)
}

// Put appends the newest value of a name. It returns when that is written, and not when it is
// synced. It does not wait for space: these records are small, and the log needs them to make space.
func (l *Log) Put(kind record.Kind, name string, value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.put(kind, name, value, nil, 1)
}

// put appends a record that is no event. The lock must be held.
func (l *Log) put(kind record.Kind, name string, value, data []byte, count uint32) error {
	if l.err != nil {
		return l.err
	}
	if err := l.begin(record.HeaderSize + 32 + len(name) + len(value) + len(data)); err != nil {
		return err
	}
	at := time.Now().UnixMicro()
	if err := l.stage(kind, name, value, data, count, at); err != nil {
		return err
	}
	return l.write(at)
}

// Get returns the newest value of a name.
func (l *Log) Get(kind record.Kind, name string) (n Named, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.named[l.hasher.Record(kind, name)]
	if found == nil {
		return Named{}, false
	}
	return *found, true
}

// All returns the newest values of all names of a kind, in no order.
func (l *Log) All(kind record.Kind) (all []Named) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.named {
		if n.Kind == kind {
			all = append(all, *n)
		}
	}
	return all
}
