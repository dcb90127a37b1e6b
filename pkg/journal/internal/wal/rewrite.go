package wal

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// rewrite replaces neighbouring segments by one with what is left of them, which covers their numbers.
func (c *Compactor) rewrite(group []*source, p Policy) error {
	header := group[0].Header
	header.Through = group[len(group)-1].Through
	for _, s := range group {
		header.Generation = max(header.Generation, s.Generation+1)
	}
	w := &rewriter{segments: c.segments, sealer: c.sealer, index: segment.NewIndex(header, nil)}
	written, err := w.run(group)
	if err == nil {
		c.replace(group, written, w.index.Entries, p)
	}
	return err
}

// rewriter writes a segment that replaces others.
type rewriter struct {
	segments *segments
	sealer   *sealer
	to       *bufio.Writer
	index    *segment.Index
	from     []place // of the records, before
	bytes    []byte  // of a record
}

// run makes the segment and its index file durable under their names. A crash leaves the sources or
// the new file.
func (w *rewriter) run(group []*source) (*file, error) {
	store, header := w.segments.store, w.index.Of
	err := disk.Replace(store.dir, header.Log(), store.syncs(), func(f disk.File) error {
		w.to = bufio.NewWriterSize(io.NewOffsetWriter(f, 0), blockSize)
		if _, err := w.to.Write(header.Append(nil)); err != nil {
			return err
		}
		for _, s := range group {
			if err := w.copy(s); err != nil {
				return err
			}
		}
		if err := w.to.Flush(); err != nil {
			return err
		}
		return w.writeIndex()
	})
	if err != nil {
		return nil, errors.Join(err, disk.Remove(store.dir, header.Index()))
	}
	if err := store.sync(store.dir); err != nil {
		return nil, err
	}
	return &file{Header: header, size: int64(w.index.Size), parts: w.index.Parts, sum: w.index.Sum}, nil
}

// writeIndex makes the index file durable, before the segment has its name: one that was left of another attempt must not
// meet the new segment.
func (w *rewriter) writeIndex() error {
	store, monitor := w.segments.store, w.segments.monitor
	monitor.mu.Lock()
	bytes := w.sealer.encode(w.index, func(i int) place { return w.from[i] })
	monitor.mu.Unlock()
	store.written.Add(uint64(w.index.Size))
	if err := store.write(w.index.Of.Index(), bytes); err != nil {
		return err
	}
	return store.sync(store.dir)
}

// copy adds the records of a segment, and compares the checksum of each.
func (w *rewriter) copy(s *source) error {
	open, err := w.segments.store.dir.Open(s.Log())
	if err != nil {
		return err
	}
	defer open.Close() //nolint:errcheck // it was only read
	scanner := segment.NewScanner(open, segment.HeaderSize, s.size)
	for i := range s.index.Entries {
		e := s.index.Entries[i]
		r, at, err := scanner.Next()
		if err == nil && (at != int64(e.Offset) || r.Kind != e.Kind || r.Seq != e.Seq) {
			err = fmt.Errorf("%w: not that of the index file", record.ErrInvalid)
		}
		if errors.Is(err, record.ErrInvalid) || errors.Is(err, record.ErrShort) || errors.Is(err, io.EOF) {
			return w.segments.damaged(s.Name, at, err)
		}
		if err != nil {
			return err
		}
		if s.fates[i] == Drop {
			continue
		}
		if s.fates[i] == DropData {
			r.Data, r.Flags = nil, r.Flags|record.DataRemoved
		}
		if w.bytes, err = record.Append(w.bytes[:0], &r); err == nil {
			_, err = w.to.Write(w.bytes)
		}
		if err != nil {
			return err
		}
		w.from = append(w.from, s.place(&e))
		e.Size, e.Flags = uint32(r.Size()), r.Flags
		w.index.Add(e, s.index.NamespaceOf(&e), r.Head)
	}
	return nil
}

// replace takes the lock, and puts a rewritten segment with these records in the place of others, and the keys in order.
func (c *Compactor) replace(group []*source, by *file, left []segment.Entry, p Policy) {
	c.monitor.mu.Lock()
	defer c.monitor.mu.Unlock()
	for _, s := range group {
		for i := range s.index.Entries {
			e := &s.index.Entries[i]
			last, is := c.keys.lastAt(e, s.place(e))
			if s.fates[i] != Drop {
				if is {
					last.Segment, last.Offset, last.Size, last.Flags = by.Number, left[0].Offset, left[0].Size, left[0].Flags
					c.keys.table.set(e.Key, last)
				}
				left = left[1:]
				continue
			}
			if e.Kind == record.Event {
				c.keys.events--
			}
			if is {
				c.keys.table.remove(e.Key)
			}
			p.Dropped(e, s.index.NamespaceOf(e))
		}
	}
	c.segments.replace(group, by)
	c.monitor.signal()
}
