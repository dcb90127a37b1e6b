package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/informd/informd/internal/private"
)

// Directory is a [Dir] of the operating system. No name leads out of it ([os.Root]).
type Directory struct {
	path string
	root *os.Root
	lock *lock
	// temporary: Close deletes the directory.
	temporary bool
}

// Open opens and locks the directory at path, which exists. It fails at once if another process
// has it open, or if other users could change it. The warning, if any, names a mode that is too
// open and usual in containers.
func Open(path string) (_ *Directory, warning string, err error) {
	warning, err = private.Dir(path)
	if err != nil {
		return nil, "", fmt.Errorf("journal.dir: %w", err)
	}
	d := &Directory{path: path}
	if d.lock, err = takeLock(path); err != nil {
		return nil, "", err
	}
	if d.root, err = os.OpenRoot(path); err != nil {
		return nil, "", errors.Join(fmt.Errorf("open journal.dir: %w", err), d.lock.release())
	}
	return d, warning, nil
}

// Path is the path that the directory was opened at.
func (d *Directory) Path() string { return d.path }

// Replaced reports whether the directory or its lock was removed or replaced.
func (d *Directory) Replaced() bool { return d.lock != nil && !d.lock.isIn(d.path) }

// Close gives the directory up, and deletes a temporary one. Open files stay usable.
func (d *Directory) Close() (err error) {
	if d.temporary && !d.Replaced() {
		err = os.RemoveAll(d.path) // while it is locked
	}
	err = errors.Join(err, d.root.Close())
	if d.lock != nil {
		err = errors.Join(err, d.lock.release())
	}
	return err
}

// Create implements [Dir].
func (d *Directory) Create(name string) (File, error) {
	return wrap(d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

// Open implements [Dir].
func (d *Directory) Open(name string) (File, error) {
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := private.Regular(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return wrap(f, nil)
}

// Rename implements [Dir].
func (d *Directory) Rename(from, to string) error { return d.root.Rename(from, to) }

// Remove implements [Dir].
func (d *Directory) Remove(name string) error { return d.root.Remove(name) }

// Names implements [Dir].
func (d *Directory) Names() ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Sync implements [Dir].
func (d *Directory) Sync() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Free returns what this process may still write, and the size of the file system, in bytes.
func (d *Directory) Free() (free, total uint64, err error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(d.path, &stat); err != nil {
		return 0, 0, fmt.Errorf("ask for the free space of journal.dir %s: %w", d.path, err)
	}
	block := uint64(stat.Bsize) // its type depends on the system
	return stat.Bavail * block, stat.Blocks * block, nil
}

// file is a [File] of the operating system.
type file struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

// Size implements [File].
func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
