package wal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// ErrDamaged says that a segment has invalid bytes behind what was synced. The log must be opened
// again, which removes them.
var ErrDamaged = errors.New("the log is damaged; the next start leaves the damage out and declares what is missing")

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

// close closes a file that is synced, or whose content is lost anyway.
func (f *file) close() {
	if f.open != nil {
		_ = f.open.Close()
		f.open = nil
	}
}

// segments are the files of the log, in order; the last one is appended to. The log's lock guards them.
type segments struct {
	monitor *Monitor
	store   *store
	id      [16]byte
	secret  [16]byte // of the key hashes

	all      []*file
	numbers  map[uint32]*file
	replaced []*file // to be removed when no call reads them
	bytes    int64   // of all
	version  uint64  // of the list
}

// logID identifies the log, and its copies.
func (s *segments) logID() string { return hex.EncodeToString(s.id[:]) }

func (s *segments) active() *file { return s.all[len(s.all)-1] }

// end is the place behind the newest record.
func (s *segments) end() place { return s.active().end() }

// create begins a new segment, whose first sequence is first, and whose number is not below least.
func (s *segments) create(first uint64, least uint32) error {
	header := segment.Header{ID: s.id, Secret: s.secret, Name: segment.Name{Number: max(least, 1)}, First: first}
	var before *segment.Index
	if len(s.all) > 0 {
		before = s.active().index
		header.Previous, header.Number = s.active().size, max(least, s.active().Through+1)
	}
	header.Through = header.Number
	open, err := s.store.dir.Create(header.Log())
	if err != nil {
		return err
	}
	if err := s.store.writeAt(open, header.Append(nil), 0); err != nil {
		return errors.Join(err, open.Close(), s.store.dir.Remove(header.Log()))
	}
	s.add(&file{Header: header, size: segment.HeaderSize, open: open, index: segment.NewIndex(header, before)})
	return nil
}

// add makes a segment the last of the log.
func (s *segments) add(f *file) {
	s.all, s.numbers[f.Number] = append(s.all, f), f
	s.bytes += f.size
	s.version++
}

// replace puts a segment into the place of neighbouring ones, whose files go when no call reads them.
func (s *segments) replace(group []*source, by *file) {
	i := slices.Index(s.all, group[0].file)
	s.all = slices.Replace(s.all, i, i+len(group), by)
	for _, old := range group {
		delete(s.numbers, old.Number)
		s.bytes -= old.size
		s.replaced = append(s.replaced, old.file)
	}
	s.numbers[by.Number] = by
	s.bytes += by.size
	s.version++
}

// removeReplaced removes the files of replaced segments, except for those that a call reads. It takes the lock.
func (s *segments) removeReplaced() error {
	s.monitor.mu.Lock()
	var free []*file
	s.replaced = slices.DeleteFunc(s.replaced, func(f *file) bool {
		if f.held == 0 {
			free = append(free, f)
		}
		return f.held == 0
	})
	s.monitor.mu.Unlock()
	for _, f := range free {
		if err := s.store.remove(f.Name); err != nil {
			return err
		}
	}
	return nil
}

// hold takes the lock, and returns the segments of the log, in order. Their files stay until release is called.
func (s *segments) hold() ([]*file, error) {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	for _, f := range s.all {
		f.held++
	}
	return slices.Clone(s.all), s.monitor.err
}

// release takes the lock.
func (s *segments) release(files ...*file) {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	for _, f := range files {
		f.held--
	}
}

// indexOf takes the lock, and returns what the index of a segment has now.
func (s *segments) indexOf(f *file) (*segment.Index, error) {
	s.monitor.mu.Lock()
	if f.index != nil {
		defer s.monitor.mu.Unlock()
		now := *f.index // it only grows
		return &now, nil
	}
	s.monitor.mu.Unlock()
	index, _, err := s.readIndex(f)
	return index, err
}

// readIndex reads the index file of a segment. The lock is not held.
func (s *segments) readIndex(f *file) (index *segment.Index, bytes []byte, err error) {
	if bytes, err = disk.Read(s.store.dir, f.Index(), 0, -1); err != nil {
		return nil, nil, err
	}
	if index, err = segment.ParseIndex(bytes, f.Header); err != nil {
		return nil, nil, s.damaged(f.Name, 0, err)
	}
	return index, bytes, nil
}

// damaged takes the lock, and makes an invalid record or index file final. Without the index file, the next Open reads
// the records of the segment.
func (s *segments) damaged(name segment.Name, at int64, reason error) error {
	err := fmt.Errorf("%w: %s at byte %d: %w", ErrDamaged, name.Log(), at, reason)
	s.monitor.Fail(errors.Join(err, disk.Remove(s.store.dir, name.Index())))
	return err
}
