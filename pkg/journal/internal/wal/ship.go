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

const (
	// maxFollowers bounds the processes that copy a log.
	maxFollowers = 8
	// rest is how long readers do not wait for a follower that was too slow.
	rest = 10 * time.Second
)

// followers are the processes with a copy of the log that hard events wait for. They are part of [Barrier].
type followers struct {
	all      map[string]*follower
	released map[string]time.Time // when one was too slow
}

// follower is another process with a copy of the log.
type follower struct {
	acked place
	asked time.Time // when it has acknowledged last
	// until is the end of the log when hard events began to wait for it. With all before, its copy has
	// whatever a reader has.
	until place
}

// behind returns the followers that lack something before a place.
func (f *followers) behind(end place) (names []string) {
	for name, one := range f.all {
		if one.acked.before(end) {
			names = append(names, name)
		}
	}
	return names
}

// acknowledge notes that a follower has all before a place. It begins to wait for one that is near the end of the log.
func (f *followers) acknowledge(name string, at, end place) {
	if known := f.all[name]; known != nil {
		known.acked, known.asked = at, time.Now() // an earlier place than before is that of a new process of this name
		return
	}
	rested := time.Since(f.released[name]) > rest
	if at.segment == end.segment && end.offset-at.offset <= chunkBytes && rested && len(f.all) < maxFollowers {
		delete(f.released, name)
		f.all[name] = &follower{acked: at, asked: time.Now(), until: end}
	}
}

func (f *followers) release(name string) {
	if delete(f.all, name); len(f.released) < maxFollowers {
		f.released[name] = time.Now()
	}
}

// Acknowledge notes that a follower has the log up to an offset of a segment. From the first time in the
// active segment on, hard events wait for that follower, until [Shipping.Release].
func (s *Shipping) Acknowledge(follower, name string, offset int64) {
	n, ok := segment.ParseName(name)
	if !ok || name != n.Log() {
		return
	}
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	at, end := place{n.Number, offset}, s.segments.end()
	if end.before(at) {
		return
	}
	s.barrier.followers.acknowledge(follower, at, end)
	s.barrier.free()
}

// Release no longer waits for a follower, for some seconds at least. Before, nobody may count on its copy any more.
func (s *Shipping) Release(follower string) {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	s.barrier.followers.release(follower)
	s.barrier.free()
}

// Following describes the followers of a log.
type Following struct {
	// InSync have whatever a reader has, and Late have kept a reader waiting for longer than allowed.
	InSync, Late []string
	// Lag is how many bytes of the active segment the follower lacks, by name; of one that is in an
	// earlier segment it is that of the whole active one.
	Lag map[string]int64
}

// Following returns the followers of now. Late is one that holds readers up for longer than patience, or lacks
// something and has not asked for longer than silence.
func (s *Shipping) Following(patience, silence time.Duration) Following {
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	all, end, withheld := Following{Lag: map[string]int64{}}, s.segments.end(), s.barrier.withheld
	for name, f := range s.barrier.followers.all {
		if all.Lag[name] = end.offset; f.acked.segment == end.segment {
			all.Lag[name] = end.offset - f.acked.offset
		}
		if !f.acked.before(f.until) {
			all.InSync = append(all.InSync, name)
		}
		holdsUp := len(withheld) > 0 && time.Since(withheld[0].at) > patience && f.acked.before(withheld[0].end)
		if holdsUp || f.acked.before(end) && time.Since(f.asked) > silence {
			all.Late = append(all.Late, name)
		}
	}
	slices.Sort(all.InSync)
	slices.Sort(all.Late)
	return all
}

// Settle waits until all followers have what the log has now, or ctx ends. It returns those that lack something.
func (s *Shipping) Settle(ctx context.Context) (behind []string) {
	s.monitor.mu.Lock()
	end := s.segments.end()
	s.settling++
	s.monitor.signal()
	s.monitor.mu.Unlock()
	_ = s.monitor.waitFor(ctx, func() bool {
		behind = s.barrier.followers.behind(end)
		return len(behind) == 0
	})
	s.monitor.mu.Lock()
	defer s.monitor.mu.Unlock()
	s.settling--
	return behind
}
