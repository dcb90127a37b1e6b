package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
		if d, err = openTemporary(dir); err == nil {
			return d, leftover, nil
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return nil, leftover, err
}

func openTemporary(path string) (*Directory, error) {
	d, _, err := Open(path)
	if err == nil {
		d.temporary = true
	}
	return d, err
}

func removeLeftovers(parent, prefix string) error {
	entries, err := os.ReadDir(parent)
	errs := []error{err}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		// What cannot be opened is of another process or user.
		if d, err := openTemporary(filepath.Join(parent, entry.Name())); err == nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}
