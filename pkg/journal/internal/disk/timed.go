package disk

import (
	"sync/atomic"
	"time"
)

// Timed is a [Dir] that knows how long a call of it or of its files has not returned: a disk or a file
// server that hangs gives no error.
type Timed struct {
	dir Dir
	// calls are when the calls in progress began, in nanoseconds since 1970; 0 is free. Calls beyond
	// them are not timed.
	calls [64]atomic.Int64
}

// NewTimed returns a directory that times the calls of another one.
func NewTimed(d Dir) *Timed { return &Timed{dir: d} }

// Waiting is for how long the longest call in progress has not returned, 0 without one. It never
// blocks.
func (t *Timed) Waiting() (longest time.Duration) {
	for i := range t.calls {
		if began := t.calls[i].Load(); began != 0 {
			longest = max(longest, time.Since(time.Unix(0, began)))
		}
	}
	return longest
}

// begin notes that a call begins. The result is set to 0 at its end.
func (t *Timed) begin() *atomic.Int64 {
	now := time.Now().UnixNano()
	for i := range t.calls {
		if t.calls[i].CompareAndSwap(0, now) {
			return &t.calls[i]
		}
	}
	return new(atomic.Int64)
}

// Do times a call of something else on the same disk.
func (t *Timed) Do(call func()) {
	defer t.begin().Store(0)
	call()
}

// Create implements [Dir].
func (t *Timed) Create(name string) (File, error) {
	defer t.begin().Store(0)
	return t.file(t.dir.Create(name))
}

// Open implements [Dir].
func (t *Timed) Open(name string) (File, error) {
	defer t.begin().Store(0)
	return t.file(t.dir.Open(name))
}

func (t *Timed) file(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return timedFile{f, t}, nil
}

// Rename implements [Dir].
func (t *Timed) Rename(from, to string) error {
	defer t.begin().Store(0)
	return t.dir.Rename(from, to)
}

// Remove implements [Dir].
func (t *Timed) Remove(name string) error {
	defer t.begin().Store(0)
	return t.dir.Remove(name)
}

// Names implements [Dir].
func (t *Timed) Names() ([]string, error) {
	defer t.begin().Store(0)
	return t.dir.Names()
}

// Sync implements [Dir].
func (t *Timed) Sync() error {
	defer t.begin().Store(0)
	return t.dir.Sync()
}

// Free implements [Dir].
func (t *Timed) Free() (free, total uint64, err error) {
	defer t.begin().Store(0)
	return t.dir.Free()
}

type timedFile struct {
	file File
	of   *Timed
}

// ReadAt implements [File].
func (f timedFile) ReadAt(p []byte, off int64) (int, error) {
	defer f.of.begin().Store(0)
	return f.file.ReadAt(p, off)
}

// WriteAt implements [File].
func (f timedFile) WriteAt(p []byte, off int64) (int, error) {
	defer f.of.begin().Store(0)
	return f.file.WriteAt(p, off)
}

// Truncate implements [File].
func (f timedFile) Truncate(size int64) error {
	defer f.of.begin().Store(0)
	return f.file.Truncate(size)
}

// Sync implements [File].
func (f timedFile) Sync() error {
	defer f.of.begin().Store(0)
	return f.file.Sync()
}

// Size implements [File].
func (f timedFile) Size() (int64, error) {
	defer f.of.begin().Store(0)
	return f.file.Size()
}

// Close implements [File].
func (f timedFile) Close() error {
	defer f.of.begin().Store(0)
	return f.file.Close()
}
