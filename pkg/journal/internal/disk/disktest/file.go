package disktest

import (
	"fmt"
	"io"
	"syscall"
)

// file is an open file.
type file struct {
	*inode

	disk *Disk
	name string
	life int
}

func (f *file) do(name string, changes bool, call func() error) error {
	return f.disk.do(name, f.name, changes, func() error {
		if f.life != f.disk.life {
			return ErrPowerLost
		}
		return call()
	})
}

// ReadAt implements [disk.File].
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.do("read", false, func() error {
		if n = copy(p, f.data[min(off, int64(len(f.data))):]); n < len(p) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

// WriteAt implements [disk.File]. What does not fit is left out, as on a full disk.
func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.do("write", true, func() error {
		d, end, full := f.disk, int(off)+len(p), false
		if room := d.faults.Size - min(d.faults.Size, d.used); d.faults.Size > 0 && uint64(max(0, end-len(f.data))) > room {
			end, full = len(f.data)+int(room), true
		}
		grow := max(0, end-len(f.data))
		d.used += uint64(grow)
		f.data = append(f.data, make([]byte, grow)...)
		if end > int(off) {
			n = copy(f.data[off:end], p)
		}
		for page := int(off) / pageSize; page*pageSize < end; page++ {
			f.dirty[page] = struct{}{}
		}
		if full {
			return fmt.Errorf("write %s: %w", f.name, syscall.ENOSPC)
		}
		return nil
	})
	return n, err
}

// Truncate implements [disk.File].
func (f *file) Truncate(size int64) error {
	return f.do("truncate", true, func() error {
		if int(size) < len(f.data) {
			f.disk.used -= uint64(len(f.data) - int(size))
			f.data = f.data[:size:size]
		}
		return nil
	})
}

// Sync implements [disk.File].
func (f *file) Sync() error {
	return f.do("fsync", true, func() error {
		if f.disk.faults.SyncFails != nil && f.disk.faults.SyncFails(f.name) {
			f.dirty = map[int]struct{}{}
			return fmt.Errorf("sync %s: %w", f.name, syscall.EIO)
		}
		// Pages that an earlier sync dropped stay as they were on the disk.
		synced := make([]byte, len(f.data))
		copy(synced, f.synced)
		for page := range f.dirty {
			if from, to := page*pageSize, min((page+1)*pageSize, len(synced)); from < to {
				copy(synced[from:to], f.data[from:to])
			}
		}
		f.synced, f.dirty = synced, map[int]struct{}{}
		return nil
	})
}

// Size implements [disk.File].
func (f *file) Size() (size int64, err error) {
	err = f.do("size", false, func() error {
		size = int64(len(f.data))
		return nil
	})
	return size, err
}

// Close implements [disk.File].
func (f *file) Close() error { return nil }
