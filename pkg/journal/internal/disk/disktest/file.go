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

func (f *file) call(name string, changes bool) error {
	if err := f.disk.call(name, f.name, changes); err != nil {
		return err
	}
	if f.life != f.disk.life {
		f.disk.mu.Unlock()
		return ErrPowerLost
	}
	return nil
}

// ReadAt implements [disk.File].
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.call("read", false); err != nil {
		return 0, err
	}
	defer f.disk.mu.Unlock()
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements [disk.File]. What does not fit is left out, as on a full disk.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.call("write", true); err != nil {
		return 0, err
	}
	defer f.disk.mu.Unlock()
	end := int(off) + len(p)
	grow, full := max(0, end-len(f.data)), false
	if room := f.disk.faults.Size - min(f.disk.faults.Size, f.disk.used); f.disk.faults.Size > 0 && uint64(grow) > room {
		p = p[:max(0, len(p)-grow+int(room))]
		end, full = int(off)+len(p), true
		grow = max(0, end-len(f.data))
	}
	f.disk.used += uint64(grow)
	f.data = append(f.data, make([]byte, grow)...)
	copy(f.data[off:], p)
	f.touch(int(off), end)
	if full {
		return len(p), fmt.Errorf("write %s: %w", f.name, syscall.ENOSPC)
	}
	return len(p), nil
}

func (f *inode) touch(from, to int) {
	for page := from / pageSize; page*pageSize < to; page++ {
		f.dirty[page] = struct{}{}
	}
}

// Truncate implements [disk.File].
func (f *file) Truncate(size int64) error {
	if err := f.call("truncate", true); err != nil {
		return err
	}
	defer f.disk.mu.Unlock()
	if int(size) < len(f.data) {
		f.disk.used -= uint64(len(f.data) - int(size))
		f.data = f.data[:size:size]
	}
	return nil
}

// Sync implements [disk.File].
func (f *file) Sync() error {
	if err := f.call("fsync", true); err != nil {
		return err
	}
	defer f.disk.mu.Unlock()
	if f.disk.faults.SyncFails != nil && f.disk.faults.SyncFails(f.name) {
		f.dirty = map[int]struct{}{}
		return fmt.Errorf("sync %s: %w", f.name, syscall.EIO)
	}
	// Pages that an earlier sync dropped stay as they were on the disk.
	size := len(f.data)
	synced := make([]byte, size)
	copy(synced, f.synced)
	for page := range f.dirty {
		from, to := page*pageSize, min((page+1)*pageSize, size)
		if from < to {
			copy(synced[from:to], f.data[from:to])
		}
	}
	f.synced, f.dirty = synced, map[int]struct{}{}
	return nil
}

// Size implements [disk.File].
func (f *file) Size() (int64, error) {
	if err := f.call("size", false); err != nil {
		return 0, err
	}
	defer f.disk.mu.Unlock()
	return int64(len(f.data)), nil
}

// Close implements [disk.File].
func (f *file) Close() error { return nil }
