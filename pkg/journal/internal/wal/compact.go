package wal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// Fate is what becomes of a record when its segment is rewritten.
type Fate uint8

// The fates.
const (
	Keep Fate = iota
	// Drop removes the record.
	Drop
	// DropData removes the data of an event, and keeps the rest.
	DropData
)

// Policy says which records a log no longer needs.
type Policy interface {
	// Fate is asked for each event of the segments that may be rewritten, in order, with the last
	// event of its key, which is durable. Namespace is that of the object. Fate must not call the
	// log.
	Fate(e *segment.Entry, last Last, namespace string) Fate
	// Dropped is called for each record that was removed. It must not call the log.
	Dropped(e *segment.Entry, namespace string)
}

// source is a segment that is rewritten.
type source struct {
	*file

	index *segment.Index
	fates []Fate
	live  int64 // bytes
}

// few is how many segments without garbage are joined at least: each is written once more then.
const few = 8

// Compactor rewrites sealed segments without what is no longer needed. Its own lock is held during a pass, and that of
// the log is taken within it.
type Compactor struct {
	monitor      *Monitor
	segments     *segments
	keys         *Keys
	barrier      *Barrier
	syncer       *Syncer
	segmentBytes int64
	pass         sync.Mutex
}

// Compact removes what the policy lets go: it rewrites segments of which at most so many percent are
// left, and joins small ones. Records that are not synced neither go nor make others go. An error other
// than that of a full disk is final.
func (c *Compactor) Compact(p Policy, percent int64) error {
	c.pass.Lock()
	defer c.pass.Unlock()
	err := c.compact(p, percent)
	if err == nil || disk.IsFull(err) {
		return err
	}
	c.monitor.Fail(diskFailed(err))
	return c.monitor.Failure()
}

func (c *Compactor) compact(p Policy, percent int64) error {
	err := c.monitor.Failure()
	if err == nil {
		err = c.segments.removeReplaced()
	}
	if err != nil {
		return err
	}
	c.monitor.mu.Lock()
	stable := c.barrier.synced
	files := slices.Clone(c.segments.all[:len(c.segments.all)-1])
	c.monitor.mu.Unlock()
	g := group{compactor: c, policy: p, percent: percent}
	older := map[record.Hash]struct{}{}
	for _, f := range files {
		s, err := c.examine(f, p, stable, older)
		if err != nil {
			return err
		}
		if s == nil {
			break // nor are those behind it
		}
		if err := g.add(s); err != nil {
			return err
		}
	}
	return g.end()
}

// group collects neighbouring segments that become one.
type group struct {
	compactor *Compactor
	policy    Policy
	percent   int64
	sources   []*source
	live      int64
}

func (g *group) goes(s *source) bool { return s.live < s.size && s.live*100 <= s.size*g.percent }

func (g *group) add(s *source) error {
	most := g.compactor.segmentBytes
	joins := g.goes(s) || s.live <= most/2
	if len(g.sources) > 0 && (!joins || g.live+s.live > most) {
		if err := g.end(); err != nil {
			return err
		}
	}
	if joins {
		g.sources, g.live = append(g.sources, s), g.live+s.live
	}
	return nil
}

// end rewrites the segments if that is worth it.
func (g *group) end() error {
	sources := g.sources
	g.sources, g.live = nil, 0
	if len(sources) < few && !slices.ContainsFunc(sources, g.goes) {
		return nil
	}
	if err := g.compactor.rewrite(sources, g.policy); err != nil {
		return err
	}
	return g.compactor.segments.removeReplaced()
}

// examine asks the policy about the records of a segment. It returns nil for one that may not be
// rewritten yet. The last record of an ended or forgotten object goes only when nothing older of it is
// left, as that would be the last one then: older collects the keys of which an older record is left.
func (c *Compactor) examine(f *file, p Policy, stable place, older map[record.Hash]struct{}) (*source, error) {
	c.monitor.mu.Lock()
	ready, err := f.index == nil && f.end().before(stable), c.monitor.err
	c.monitor.mu.Unlock()
	if err != nil || !ready {
		return nil, err
	}
	index, _, err := c.segments.readIndex(f)
	if err != nil {
		return nil, err
	}
	s := &source{file: f, index: index, fates: make([]Fate, len(index.Entries)), live: segment.HeaderSize}
	c.monitor.mu.Lock()
	defer c.monitor.mu.Unlock()
	for i := range index.Entries {
		e := &index.Entries[i]
		s.fates[i] = c.fate(s, e, p, stable, older)
		switch s.fates[i] {
		case Keep:
			s.live += int64(e.Size)
		case DropData:
			s.live += min(int64(e.Size), 2*record.HeaderSize)
		case Drop:
		}
	}
	return s, nil
}

func (c *Compactor) fate(s *source, e *segment.Entry, p Policy, stable place, older map[record.Hash]struct{}) Fate {
	last, is := c.keys.lastAt(e, s.place(e))
	fate := Drop // also what ends an object or a letter, unless something older of it is left
	switch {
	case !last.exists(): // dropped with its last event
		return Drop
	case !is && !last.place().before(stable):
		return Keep
	case e.Kind == record.Event:
		fate = p.Fate(e, last, s.index.NamespaceOf(e))
	case is && (!e.Flags.Has(record.Ends) || c.keys.letters.newest(e, c.keys.hasher)):
		return Keep
	}
	if _, left := older[e.Key]; left && is && fate == Drop {
		return Keep
	}
	if !is && last.Flags.Has(record.Ends) {
		older[e.Key] = struct{}{}
	}
	if fate == DropData && e.Flags.Has(record.DataRemoved) {
		return Keep
	}
	return fate
}

// rewrite replaces neighbouring segments by one with what is left of them, which covers their numbers.
func (c *Compactor) rewrite(group []*source, p Policy) error {
	header := group[0].Header
	header.Through = group[len(group)-1].Through
	for _, s := range group {
		header.Generation = max(header.Generation, s.Generation+1)
	}
	w := &rewriter{segments: c.segments, syncer: c.syncer, index: segment.NewIndex(header, nil)}
	written, err := w.run(group)
	if err == nil {
		c.replace(group, written, w.index.Entries, p)
	}
	return err
}

// rewriter writes a segment that replaces others.
type rewriter struct {
	segments *segments
	syncer   *Syncer
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
	bytes := w.syncer.encode(w.index, func(i int) place { return w.from[i] })
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
