package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/informd/informd/test/cluster/internal/flock"
)

const (
	lockName = ".lock"
	// newPrefix marks a temp dir whose lock is not yet taken.
	newPrefix = "informd-new-"
)

// Dir is a directory that one process owns, by a lock on a file in it.
type Dir struct {
	path string
	temp bool
	lock *flock.Lock
}

// TempDir makes a directory that Close removes. It first removes directories of
// the same kind whose owners are gone without having called Close.
func TempDir(kind string) (*Dir, error) {
	prefix := "informd-" + kind + "-"
	sweep(prefix)
	path, err := os.MkdirTemp("", newPrefix)
	if err != nil {
		return nil, fmt.Errorf("make temp dir: %w", err)
	}
	lock, err := flock.Try(filepath.Join(path, lockName))
	if err != nil {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("make temp dir: %w", err)
	}
	// The directory gets the name that sweep looks for only after it is locked.
	final := filepath.Join(filepath.Dir(path), prefix+strings.TrimPrefix(filepath.Base(path), newPrefix))
	if err := os.Rename(path, final); err != nil {
		_ = os.RemoveAll(path)
		_ = lock.Release()
		return nil, fmt.Errorf("make temp dir: %w", err)
	}
	return &Dir{path: final, temp: true, lock: lock}, nil
}

// OpenDir takes a directory that Close keeps, creating it if needed. One that
// another process has open is an error.
func OpenDir(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	lock, err := flock.Try(filepath.Join(path, lockName))
	if errors.Is(err, flock.ErrHeld) {
		return nil, fmt.Errorf("directory %s is in use: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	return &Dir{path: path, lock: lock}, nil
}

// Temporary says whether Close removes the directory.
func (d *Dir) Temporary() bool { return d.temp }

// Join returns the path of something in the directory.
func (d *Dir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Close gives the directory up; one made by TempDir is removed with all that is
// in it. Nothing may write to it any more.
func (d *Dir) Close() error {
	var err error
	if d.temp {
		err = os.RemoveAll(d.path)
	} else {
		err = os.Remove(d.Join(lockName))
	}
	return errors.Join(err, d.lock.Release())
}

// sweep removes abandoned directories. What it cannot remove it leaves: another
// user's directory, say.
func sweep(prefix string) {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, path := range paths {
		lock, err := flock.TryExisting(filepath.Join(path, lockName))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(path)
		_ = lock.Release()
	}
}
