package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// Reader reads events from files, for a reader that the tail has left behind. It is for one
// goroutine at a time. A segment that is replaced meanwhile is read to its end.
type Reader struct {
	log     *Log
	next    uint64 // the sequence to read next
	open    disk.File
	name    segment.Name
	end     int64  // of the segment, when it was opened
	after   uint64 // first sequence of the segment behind it, 0 without one
	scanner *segment.Scanner
	strings record.Strings
}

// NewReader returns a reader of the events from a sequence on.
func (l *Log) NewReader(next uint64) *Reader { return &Reader{log: l, next: next} }

// Close closes the file in use.
func (r *Reader) Close() {
	if r.open != nil {
		_ = r.open.Close() // it was only read
		r.open, r.scanner = nil, nil
	}
}

// Next returns the next events, at most limit and none beyond the sequence to. Without an error and
// without events there are none up to that sequence. Events come without an error; if there is one, the
// next call returns it.
func (r *Reader) Next(to uint64, limit int) (entries []Entry, err error) {
	if entries, err = r.read(to, limit); len(entries) > 0 {
		return entries, nil
	}
	return nil, err
}

func (r *Reader) read(to uint64, limit int) (entries []Entry, err error) {
	for len(entries) < limit && r.next <= to {
		if r.open == nil {
			if err := r.enter(); err != nil {
				return entries, err
			}
		}
		rec, at, err := r.scanner.Next()
		switch {
		case errors.Is(err, io.EOF):
			if !r.leave() {
				return entries, nil
			}
			continue
		case errors.Is(err, record.ErrInvalid), errors.Is(err, record.ErrShort):
			return entries, r.log.damaged(r.name, at, err)
		case err != nil:
			return entries, fmt.Errorf("read %s: %w", r.name.Log(), err)
		}
		if rec.Kind != record.Event || rec.Seq < r.next {
			continue
		}
		if rec.Seq > to {
			r.Close() // it comes with a later call
			break
		}
		e, err := record.ParseEvent(&rec, &r.strings)
		if err != nil {
			return entries, r.log.damaged(r.name, at, err)
		}
		entries = append(entries, Entry{Seq: rec.Seq, Event: e, Appended: time.UnixMicro(rec.Time)})
		r.next = rec.Seq + 1
	}
	return entries, nil
}

// leave ends the segment, and reports whether there is more to read: behind it, or in it if it has
// grown.
func (r *Reader) leave() bool {
	r.Close()
	if r.after > 0 {
		r.next = max(r.next, r.after)
		return true
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	active := r.log.active()
	return active.Name != r.name || active.size > r.end
}

// enter opens the segment that has the next event.
func (r *Reader) enter() error {
	l := r.log
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return l.err
	}
	i := max(0, sort.Search(len(l.files), func(i int) bool { return l.files[i].First > r.next })-1)
	f := l.files[i]
	f.held++
	defer l.release(f)
	r.name, r.end, r.after = f.Name, f.size, 0
	if i+1 < len(l.files) {
		r.after = l.files[i+1].First
	}
	l.mu.Unlock()
	offset := int64(segment.HeaderSize)
	if r.next > f.First {
		index, err := l.indexOf(f)
		if err != nil {
			return err
		}
		entries := index.Entries
		i := sort.Search(len(entries), func(i int) bool { return entries[i].Seq >= r.next })
		if i == len(entries) {
			offset = r.end
		} else {
			offset = int64(entries[i].Offset)
		}
	}
	open, err := l.dir.Open(f.Log())
	if err != nil {
		return err
	}
	r.open, r.scanner = open, segment.NewScanner(open, offset, r.end)
	return nil
}

// indexOf returns what the index of a segment has now.
func (l *Log) indexOf(f *file) (*segment.Index, error) {
	l.mu.Lock()
	if f.index != nil {
		defer l.mu.Unlock()
		now := *f.index // it only grows
		return &now, nil
	}
	l.mu.Unlock()
	index, _, err := l.readIndex(f)
	return index, err
}

// readIndex reads the index file of a segment.
func (l *Log) readIndex(f *file) (index *segment.Index, bytes []byte, err error) {
	if bytes, err = disk.Read(l.dir, f.Index(), 0, -1); err != nil {
		return nil, nil, err
	}
	if index, err = segment.ParseIndex(bytes, f.Header); err != nil {
		return nil, nil, l.damaged(f.Name, 0, err)
	}
	return index, bytes, nil
}

// damaged makes an invalid record or index file final. Without the index file, the next Open reads the
// records of the segment.
func (l *Log) damaged(name segment.Name, at int64, reason error) error {
	err := fmt.Errorf("%w: %s at byte %d: %w", ErrDamaged, name.Log(), at, reason)
	l.Fail(errors.Join(err, disk.Remove(l.dir, name.Index())))
	return err
}

// Place names the last event of a key, for [Log.Read].
type Place struct {
	Key record.Hash
	Seq uint64
}

// ErrGone says that a record is no longer in the log, or not the last of its key.
var ErrGone = errors.New("the record is gone")

// Has reports whether the log has an event of a key.
func (l *Log) Has(of *event.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.get(l.hasher.Event(of)).exists()
}

// LastOf returns the last event of a key, with its data.
func (l *Log) LastOf(of *event.Event, shared *record.Strings) (Entry, error) {
	l.mu.Lock()
	key := l.hasher.Event(of)
	l.mu.Unlock()
	s := Source{Strings: shared}
	defer s.Close()
	return l.Read(Place{Key: key}, &s)
}

// Read returns the last event of a key if it has the sequence of the place, or any if that is 0. The
// error is [ErrGone] otherwise.
func (l *Log) Read(of Place, in *Source) (Entry, error) {
	l.mu.Lock()
	last := l.table.get(of.Key)
	if l.err != nil || last.Kind != record.Event || of.Seq != 0 && last.Seq != of.Seq {
		defer l.mu.Unlock()
		if l.err != nil {
			return Entry{}, l.err
		}
		return Entry{}, ErrGone
	}
	if newest := l.tail.from(last.Seq); newest != nil {
		defer l.mu.Unlock()
		return newest[0], nil
	}
	f, offset, size := l.numbers[last.Segment], last.Offset, last.Size
	f.held++
	defer l.release(f)
	l.mu.Unlock()
	return in.event(l, f, offset, size)
}

// Source has the file of the last [Log.Read]. It is for one goroutine at a time.
type Source struct {
	Strings *record.Strings

	name segment.Name
	open disk.File
}

// record reads a record of a segment that is held.
func (s *Source) record(l *Log, f *file, offset, size uint32) (rec record.Record, err error) {
	if s.open == nil || s.name != f.Name {
		s.Close()
		if s.open, err = l.dir.Open(f.Log()); err != nil {
			s.open = nil
			return rec, err
		}
		s.name = f.Name
	}
	bytes := make([]byte, size)
	n, err := disk.ReadAt(s.open, bytes, int64(offset))
	if err != nil {
		return rec, err
	}
	if rec, _, err = record.Parse(bytes[:n]); err != nil {
		return rec, l.damaged(f.Name, int64(offset), err)
	}
	return rec, nil
}

// event reads an event of a segment that is held.
func (s *Source) event(l *Log, f *file, offset, size uint32) (Entry, error) {
	rec, err := s.record(l, f, offset, size)
	if err != nil {
		return Entry{}, err
	}
	e, err := record.ParseEvent(&rec, s.Strings)
	if err != nil {
		return Entry{}, l.damaged(f.Name, int64(offset), err)
	}
	return Entry{Seq: rec.Seq, Event: e, Appended: time.UnixMicro(rec.Time)}, nil
}

// Close closes the file. The source can be used again.
func (s *Source) Close() {
	if s.open != nil {
		_ = s.open.Close()
	}
	s.open = nil
}

// hold returns the segments of the log, in order. Their files stay until release is called.
func (l *Log) hold() ([]*file, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		f.held++
	}
	return slices.Clone(l.files), l.err
}

func (l *Log) release(files ...*file) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range files {
		f.held--
	}
}
