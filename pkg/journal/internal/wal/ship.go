package wal

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/segment"
)

// ErrNoFile says that a file is not part of the log, or not any more: compaction has replaced it.
var ErrNoFile = errors.New("the log has no such file")

// chunkBytes is how much of a file one call of [Shipping.Chunk] returns at most.
const chunkBytes = 1 << 20

// File is a file of the log.
type File struct {
	Name string `json:"name"`
	// Size is that of a segment, in bytes, and 0 for an index file.
	Size int64 `json:"size"`
	// Sum ends the index file of the segment: see [segment.Index]. It is 0 while there is none.
	Sum uint32 `json:"sum"`
}

// Files lists what a copy of the log consists of.
type Files struct {
	// Log is the id of the log. Files of another log have nothing to do with it.
	Log string `json:"log"`
	// Sealed are segments that no longer grow, with their index files, in order. Active is the one that
	// is appended to: its size was that when the list was made.
	Sealed []File `json:"sealed"`
	Active File   `json:"active"`
	// Version changes with the list, except for the size of the active segment.
	Version uint64 `json:"version"`
}

// Find returns a sealed file of the list.
func (f *Files) Find(name string) (found File, ok bool) {
	if i := slices.IndexFunc(f.Sealed, func(one File) bool { return one.Name == name }); i >= 0 {
		return f.Sealed[i], true
	}
	return File{}, false
}

// Shipping is the log as followers copy it: whole files, and the end of the active segment as it grows. Hard events wait
// for the copies ([Barrier]).
type Shipping struct {
	monitor  *Monitor
	segments *segments
	barrier  *Barrier
	settling int // calls of Settle; the log's lock guards it
}

// Files returns the files of now. Those before the active one do not count on anything behind it.
func (s *Shipping) Files() (Files, error) {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	if s.monitor.err != nil {
		return Files{}, s.monitor.err
	}
	active := s.segments.active()
	all := Files{Log: s.segments.logID(), Version: s.segments.version, Active: File{Name: active.Log(), Size: active.size}}
	for _, f := range s.segments.all[:len(s.segments.all)-1] {
		all.Sealed = append(all.Sealed, File{f.Log(), f.size, f.sum})
		if f.index == nil {
			all.Sealed = append(all.Sealed, File{f.Index(), 0, f.sum})
		}
	}
	return all, nil
}

// Chunk is a part of a file.
type Chunk struct {
	Bytes []byte `json:"-"`
	// Ended: the file ends behind the bytes, and no longer grows.
	Ended bool `json:"ended"`
	// Version is that of [Files].
	Version uint64 `json:"version"`
}

// Chunk returns the bytes of a file from an offset on, at most a mebibyte. At the end of the active
// segment it waits for more, at most for patience, and returns at once what readers wait for.
func (s *Shipping) Chunk(ctx context.Context, name string, offset int64, patience time.Duration) (Chunk, error) {
	n, ok := segment.ParseName(name)
	if !ok {
		return Chunk{}, ErrNoFile
	}
	if name == n.Log() {
		if err := s.awaitBytes(ctx, n, offset, patience); err != nil {
			return Chunk{}, err
		}
	}
	s.monitor.mu.Lock()
	f := s.segments.numbers[n.Number]
	if s.monitor.err != nil || f == nil || f.Name != n {
		defer s.monitor.mu.Unlock()
		return Chunk{}, cmp.Or(s.monitor.err, ErrNoFile)
	}
	size, last := f.size-offset, f == s.segments.active()
	c := Chunk{Version: s.segments.version}
	f.held++
	defer s.segments.release(f)
	s.monitor.mu.Unlock()
	if name != n.Log() {
		size, last = chunkBytes+1, false // how large an index file is shows when it ends
	}
	if size < 0 {
		return Chunk{}, ErrNoFile // of another log, or of one before a crash
	}
	var err error
	c.Bytes, err = disk.Read(s.segments.store.dir, name, offset, int(min(size, chunkBytes)))
	if errors.Is(err, fs.ErrNotExist) {
		return Chunk{}, ErrNoFile
	}
	c.Ended = !last && (int64(len(c.Bytes)) == size || len(c.Bytes) < chunkBytes)
	return c, err
}

// gather is how long bytes that no reader waits for wait for more.
const gather = 50 * time.Millisecond

// awaitBytes takes the lock, and returns when a segment has bytes behind an offset that a follower should have now.
func (s *Shipping) awaitBytes(ctx context.Context, n segment.Name, offset int64, patience time.Duration) error {
	wait := func(limit time.Duration, enough func(bytes int64) bool) error {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := s.monitor.waitFor(limited, func() bool {
			bytes := s.segments.active().size - offset
			return s.segments.active().Name != n || bytes < 0 || enough(bytes)
		})
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	if err := wait(patience, func(bytes int64) bool { return bytes > 0 }); err != nil {
		return err
	}
	return wait(gather, func(bytes int64) bool {
		return bytes >= chunkBytes || len(s.barrier.withheld) > 0 || s.settling > 0
	})
}
