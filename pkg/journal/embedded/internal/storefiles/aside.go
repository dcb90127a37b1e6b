package storefiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// asideDirectory returns the directory for a stream's damaged files.
func (i *Inspection) asideDirectory(stream string) (string, error) {
	if err := i.Note(i.Damage); err != nil {
		return "", err
	}
	if i.aside == "" {
		i.aside = filepath.Join(i.Dir, "damaged-"+time.Now().UTC().Format("20060102T150405.000000000Z"))
		i.Logger.Warn("damaged journal files set aside; delete them when not needed", "dir", i.aside)
	}
	path := filepath.Join(i.aside, stream)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("set damaged files aside: %w", err)
	}
	return path, nil
}

// setAside moves a file of a stream's directory away. One that is missing is fine.
func (i *Inspection) setAside(stream, file string) error {
	return i.move(stream, filepath.Join(i.Store.stream(stream), file), filepath.Base(file), true)
}

// SetAsideStream moves a whole stream into the directory of damaged files.
func (i *Inspection) SetAsideStream(stream string) error {
	return i.move(stream, i.Store.stream(stream), "stream", false)
}

// move moves a file or directory into the directory for a stream's damaged files.
func (i *Inspection) move(stream, from, name string, mayMiss bool) error {
	directory, err := i.asideDirectory(stream)
	if err != nil {
		return err
	}
	err = os.Rename(from, filepath.Join(directory, name))
	if err != nil && (!mayMiss || !errors.Is(err, fs.ErrNotExist)) {
		return fmt.Errorf("set damaged files aside: %w", err)
	}
	return nil
}

// keep links a block under the directory of damaged files, so that the original
// outlives its repair, without taking room.
func (i *Inspection) keep(stream, file string) error {
	directory, err := i.asideDirectory(stream)
	if err != nil {
		return err
	}
	from, to := filepath.Join(i.Store.Messages(stream), file), filepath.Join(directory, file)
	if err := os.Link(from, to); err == nil {
		return nil
	}
	// A file system without hard links. A crash before the repair is written shows
	// as a missing block.
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("set damaged files aside: %w", err)
	}
	return nil
}
