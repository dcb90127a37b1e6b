package wal

import (
	"fmt"

	"github.com/informd/informd/pkg/journal/internal/record"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// sealer writes the index files of segments. It has no state of its own.
type sealer struct {
	monitor  *Monitor
	store    *store
	segments *segments
	keys     *Keys
	barrier  *Barrier
}

// sealAll takes the lock, and writes the index files of synced segments that are not active.
func (s *sealer) sealAll() error {
	for {
		s.monitor.mu.Lock()
		var sealed *file
		for _, f := range s.segments.all[:len(s.segments.all)-1] {
			if f.index != nil && f.end().before(s.barrier.synced) {
				sealed = f
				break
			}
		}
		s.monitor.mu.Unlock()
		if sealed == nil {
			return nil
		}
		if err := s.seal(sealed); err != nil {
			return unlessFull(err) // the index stays in memory until there is space
		}
	}
}

// seal takes the lock, writes the index file of a segment, and drops the index from memory.
func (s *sealer) seal(f *file) error {
	s.monitor.mu.Lock()
	index := f.index
	bytes := s.encode(index, func(i int) place { return f.place(&index.Entries[i]) })
	s.monitor.mu.Unlock()
	if err := s.store.write(f.Index(), bytes); err != nil {
		return fmt.Errorf("write %s: %w", f.Index(), err)
	}
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	f.index, f.parts, f.sum = nil, index.Parts, index.Sum
	s.segments.version++
	f.close()
	return nil
}

// encode returns the bytes of an index file, of a segment whose records are at these places now. It is called with the
// lock held.
func (s *sealer) encode(index *segment.Index, at func(i int) place) []byte {
	return index.Append(nil, func(i int) (string, bool) { return s.keepsHead(&index.Entries[i], at(i)) })
}

// keepsHead reports whether an index file has the head of a record at a place, and of which target: of the last record
// of its key. A power loss may take a record that is not synced, so those before that count, too. Until a start has
// written its own record, no other one gets into an index file: that one is missing must show.
func (s *sealer) keepsHead(e *segment.Entry, at place) (target string, ok bool) {
	last, is := s.keys.lastAt(e, at)
	if !last.exists() || !is && last.place().before(s.barrier.synced) || e.Kind == record.Start && s.store.starting {
		return "", false
	}
	if e.Kind.Keyed() {
		target = s.keys.targets.names[last.Target]
	}
	return target, true
}
