package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Temporary makes and locks a new directory below parent, whose name begins with prefix. It is of this
// user alone, and Close deletes it. Before that it deletes the directories of the same prefix and user
// that no process holds: a killed process has left them. It follows no links. An error of that is
// leftover, and stops nothing.
func Temporary(parent, prefix string) (_ *Directory, leftover, err error) {
	leftover = removeLeftovers(parent, prefix)
	const attempts = 10 // another process may take the new directory for a leftover before it is locked
	for range attempts {
		var dir string
		if dir, err = os.MkdirTemp(parent, prefix); err != nil {
			return nil, leftover, fmt.Errorf("make a directory for the memory journal: %w; set journal.dir or TMPDIR to a directory that this user may write to", err)
		}
		var d *Directory
		if d, _, err = Open(dir); err == nil {
			d.temporary = true
			return d, leftover, nil
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return nil, leftover, err
}

func removeLeftovers(parent, prefix string) error {
	root, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written to it
	entries, err := fs.ReadDir(root.FS(), ".")
	errs := []error{err}
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) {
			if err := removeLeftover(root, entry.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process was faster
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// removeLeftover deletes a directory of this user, unless a process holds it.
func removeLeftover(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return nil
	}
	dir, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	l := &lock{dir: dir}
	defer l.release() //nolint:errcheck // the locks go with it, and nothing was written
	if opened, err := dir.Stat(); err != nil || !os.SameFile(info, opened) {
		return err
	}
	if err := flock(dir); err != nil && !locksNoDirectories(err) {
		return unlessHeld(err)
	}
	l.file, err = root.OpenFile(path.Join(name, lockFile), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == nil {
		err = flock(l.file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unlessHeld(err)
	}
	return root.RemoveAll(name)
}

// unlessHeld is the error of a lock, but not that another process has it.
func unlessHeld(err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	}
	return err
}
