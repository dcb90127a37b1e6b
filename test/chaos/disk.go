package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// diskBytes is the size of the disk while it is well.
const diskBytes = 8 << 30

// Disk is a file system of its own for what informd writes, so that it can be
// full or read-only for informd alone.
type Disk struct {
	Path    string
	mounted bool
}

// newDisk mounts the i-th tmpfs in dir. Where that is not allowed, it is a plain directory
// that nothing can happen to.
func newDisk(dir string, i int) (*Disk, error) {
	path := filepath.Join(dir, fmt.Sprintf("%s%d.%d", diskPrefix, os.Getpid(), i))
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	d := &Disk{Path: path}
	d.mounted = unix.Mount("tmpfs", path, "tmpfs", 0, diskSize(diskBytes)) == nil
	return d, nil
}

// diskPrefix is followed by the id of the process that mounted the disk, and a number.
const diskPrefix = "disk-"

// sweepDisks unmounts what processes that are gone have left mounted, so that
// their temp dirs can be removed.
func sweepDisks() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), "informd-chaos-*", diskPrefix+"*"))
	for _, path := range paths {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), diskPrefix), ".")
		if _, err := os.Stat("/proc/" + pid); errors.Is(err, fs.ErrNotExist) {
			_ = unix.Unmount(path, unix.MNT_DETACH) // what is left is of no harm
		}
	}
}

func diskSize(bytes uint64) string { return fmt.Sprintf("size=%d", bytes) }

// Fill leaves no room on the disk, without writing anything.
func (d *Disk) Fill() error {
	var stat unix.Statfs_t
	if err := unix.Statfs(d.Path, &stat); err != nil {
		return err
	}
	used := (stat.Blocks - stat.Bfree) * uint64(stat.Bsize)
	return d.remount(0, max(used, uint64(os.Getpagesize())))
}

// Protect makes the disk read-only. Nobody may have a file open for writing.
func (d *Disk) Protect() error { return d.remount(unix.MS_RDONLY, diskBytes) }

// Heal makes the disk large and writable.
func (d *Disk) Heal() error { return d.remount(0, diskBytes) }

func (d *Disk) remount(flags uintptr, bytes uint64) error {
	return unix.Mount("tmpfs", d.Path, "tmpfs", unix.MS_REMOUNT|flags, diskSize(bytes))
}

// Close unmounts the disk.
func (d *Disk) Close() error {
	if !d.mounted {
		return nil
	}
	return unix.Unmount(d.Path, unix.MNT_DETACH)
}
