package wal

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// IsFile reports whether a file of that name belongs to a log, and is none of informd's others.
func IsFile(name string) bool {
	_, ok := segment.ParseName(name)
	return ok || name == syncedFile || strings.HasSuffix(name, disk.TemporarySuffix)
}

// store is the directory of a log. It counts the bytes that are written.
type store struct {
	dir disk.Dir
	// unsynced: nothing is synced but the start, so that no other start uses its sequences.
	unsynced bool
	// starting: [Open] has yet to return, and the record of this start may not be durable.
	starting bool
	written  atomic.Uint64
}

// syncs reports whether what is written now is synced.
func (s *store) syncs() bool { return !s.unsynced || s.starting }

// sync syncs a file or the directory.
func (s *store) sync(of interface{ Sync() error }) error {
	if s.syncs() {
		return of.Sync()
	}
	return nil
}

// writeAt writes all of b or, on a full disk, nothing.
func (s *store) writeAt(f disk.File, b []byte, at int64) error {
	n, err := f.WriteAt(b, at)
	s.written.Add(uint64(n))
	if disk.IsFull(err) {
		if cutErr := f.Truncate(at); cutErr != nil {
			return cutErr
		}
	}
	return err
}

// write makes or replaces a file.
func (s *store) write(name string, content []byte) error {
	if err := disk.Write(s.dir, name, content, s.syncs()); err != nil {
		return err
	}
	s.written.Add(uint64(len(content)))
	return nil
}

// remove removes a segment and its index file.
func (s *store) remove(name segment.Name) error {
	return errors.Join(disk.Remove(s.dir, name.Log()), disk.Remove(s.dir, name.Index()))
}

func unlessFull(err error) error {
	if disk.IsFull(err) {
		return nil
	}
	return err
}
