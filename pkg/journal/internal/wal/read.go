package wal

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// Reader reads events from files, for a reader that the tail has left behind. It is for one
// goroutine at a time. A segment that is replaced meanwhile is read to its end.
type Reader struct {
	segments *segments
	next     uint64 // the sequence to read next
	open     disk.File
	name     segment.Name
	end      int64  // of the segment, when it was opened
	after    uint64 // first sequence of the segment behind it, 0 without one
	scanner  *segment.Scanner
	strings  record.Strings
}

// NewReader returns a reader of the events from a sequence on.
func (h *History) NewReader(next uint64) *Reader { return &Reader{segments: h.segments, next: next} }

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
			return entries, r.segments.damaged(r.name, at, err)
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
			return entries, r.segments.damaged(r.name, at, err)
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
	r.segments.monitor.mu.Lock()
	defer r.segments.monitor.mu.Unlock()
	active := r.segments.active()
	return active.Name != r.name || active.size > r.end
}

// enter opens the segment that has the next event.
func (r *Reader) enter() error {
	m := r.segments.monitor
	m.mu.Lock()
	if m.err != nil {
		defer m.mu.Unlock()
		return m.err
	}
	all := r.segments.all
	i := max(0, sort.Search(len(all), func(i int) bool { return all[i].First > r.next })-1)
	f := all[i]
	f.held++
	defer r.segments.release(f)
	r.name, r.end, r.after = f.Name, f.size, 0
	if i+1 < len(all) {
		r.after = all[i+1].First
	}
	m.mu.Unlock()
	offset := int64(segment.HeaderSize)
	if r.next > f.First {
		index, err := r.segments.indexOf(f)
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
	open, err := r.segments.store.dir.Open(f.Log())
	if err != nil {
		return err
	}
	r.open, r.scanner = open, segment.NewScanner(open, offset, r.end)
	return nil
}

// Source has the file of the last [History.Read]; the zero value has none. It is for one goroutine at a time.
type Source struct {
	name    segment.Name
	open    disk.File
	strings record.Strings
}

// record reads a record of a segment that is held.
func (s *Source) record(in *segments, f *file, offset, size uint32) (rec record.Record, err error) {
	if s.open == nil || s.name != f.Name {
		s.Close()
		if s.open, err = in.store.dir.Open(f.Log()); err != nil {
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
		return rec, in.damaged(f.Name, int64(offset), err)
	}
	return rec, nil
}

// event reads an event of a segment that is held.
func (s *Source) event(in *segments, f *file, offset, size uint32) (Entry, error) {
	rec, err := s.record(in, f, offset, size)
	if err != nil {
		return Entry{}, err
	}
	e, err := record.ParseEvent(&rec, &s.strings)
	if err != nil {
		return Entry{}, in.damaged(f.Name, int64(offset), err)
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
