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

// chunkBytes is how much of a file one call of [Log.Chunk] returns at most.
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

// Files returns the files of now. Those before the active one do not count on anything behind it.
func (l *Log) Files() (Files, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return Files{}, l.err
	}
	all := Files{Log: l.ID(), Version: l.version, Active: File{Name: l.active().Log(), Size: l.active().size}}
	for _, f := range l.files[:len(l.files)-1] {
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
func (l *Log) Chunk(ctx context.Context, name string, offset int64, patience time.Duration) (Chunk, error) {
	n, ok := segment.ParseName(name)
	if !ok {
		return Chunk{}, ErrNoFile
	}
	if name == n.Log() {
		if err := l.awaitBytes(ctx, n, offset, patience); err != nil {
			return Chunk{}, err
		}
	}
	l.mu.Lock()
	f := l.numbers[n.Number]
	if l.err != nil || f == nil || f.Name != n {
		defer l.mu.Unlock()
		return Chunk{}, cmp.Or(l.err, ErrNoFile)
	}
	size, last := f.size-offset, f == l.active()
	c := Chunk{Version: l.version}
	f.held++
	defer l.release(f)
	l.mu.Unlock()
	if name != n.Log() {
		size, last = chunkBytes+1, false // how large an index file is shows when it ends
	}
	if size < 0 {
		return Chunk{}, ErrNoFile // of another log, or of one before a crash
	}
	var err error
	c.Bytes, err = disk.Read(l.dir, name, offset, int(min(size, chunkBytes)))
	if errors.Is(err, fs.ErrNotExist) {
		return Chunk{}, ErrNoFile
	}
	c.Ended = !last && (int64(len(c.Bytes)) == size || len(c.Bytes) < chunkBytes)
	return c, err
}

// gather is how long bytes that no reader waits for wait for more.
const gather = 50 * time.Millisecond

// awaitBytes returns when a segment has bytes behind an offset that a follower should have now.
func (l *Log) awaitBytes(ctx context.Context, n segment.Name, offset int64, patience time.Duration) error {
	wait := func(limit time.Duration, enough func(bytes int64) bool) error {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := l.waitFor(limited, func() bool {
			bytes := l.active().size - offset
			return l.active().Name != n || bytes < 0 || enough(bytes)
		})
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	}
	if err := wait(patience, func(bytes int64) bool { return bytes > 0 }); err != nil {
		return err
	}
	return wait(gather, func(bytes int64) bool { return bytes >= chunkBytes || len(l.withheld) > 0 || l.settling > 0 })
}

// follower is another process with a copy of the log.
type follower struct {
	acked place
	asked time.Time // when it has acknowledged last
	// until is the end of the log when hard events began to wait for it. With all before, its copy has
	// whatever a reader has.
	until place
}

// Acknowledge notes that a follower has the log up to an offset of a segment. From the first time in the
// active segment on, hard events wait for that follower, until [Log.Release].
func (l *Log) Acknowledge(follower, name string, offset int64) {
	n, ok := segment.ParseName(name)
	if !ok || name != n.Log() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, active := place{n.Number, offset}, l.active()
	if active.end().before(at) {
		return
	}
	if known := l.followers[follower]; known == nil {
		l.follow(follower, at)
	} else {
		known.acked, known.asked = at, time.Now() // an earlier place than before is that of a new process of this name
	}
	l.free()
}

const (
	// maxFollowers bounds the processes that copy a log.
	maxFollowers = 8
	// rest is how long readers do not wait for a follower that was too slow.
	rest = 10 * time.Second
)

// follow begins to wait for a follower that is near the end of the active segment.
func (l *Log) follow(name string, at place) {
	end := l.active().end()
	rested := time.Since(l.released[name]) > rest
	if at.segment == end.segment && end.offset-at.offset <= chunkBytes && rested && len(l.followers) < maxFollowers {
		delete(l.released, name)
		l.followers[name] = &follower{acked: at, asked: time.Now(), until: end}
	}
}

// behindOf returns the followers that lack something before a place.
func (l *Log) behindOf(end place) (names []string) {
	for name, f := range l.followers {
		if f.acked.before(end) {
			names = append(names, name)
		}
	}
	return names
}

// Release no longer waits for a follower, for some seconds at least. Before, nobody may count on its copy any more.
func (l *Log) Release(follower string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.followers, follower); len(l.released) < maxFollowers {
		l.released[follower] = time.Now()
	}
	l.free()
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
func (l *Log) Following(patience, silence time.Duration) Following {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, end := Following{Lag: map[string]int64{}}, l.active().end()
	for name, f := range l.followers {
		if all.Lag[name] = end.offset; f.acked.segment == end.segment {
			all.Lag[name] = end.offset - f.acked.offset
		}
		if !f.acked.before(f.until) {
			all.InSync = append(all.InSync, name)
		}
		holdsUp := len(l.withheld) > 0 && time.Since(l.withheld[0].at) > patience && f.acked.before(l.withheld[0].end)
		if holdsUp || f.acked.before(end) && time.Since(f.asked) > silence {
			all.Late = append(all.Late, name)
		}
	}
	slices.Sort(all.InSync)
	slices.Sort(all.Late)
	return all
}

// Settle waits until all followers have what the log has now, or ctx ends. It returns those that lack something.
func (l *Log) Settle(ctx context.Context) (behind []string) {
	l.mu.Lock()
	end := l.active().end()
	l.settling++
	l.signal()
	l.mu.Unlock()
	_ = l.waitFor(ctx, func() bool {
		behind = l.behindOf(end)
		return len(behind) == 0
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settling--
	return behind
}
