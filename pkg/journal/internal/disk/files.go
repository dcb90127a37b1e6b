package disk

import (
	"errors"
	"io"
	"io/fs"
)

// TemporarySuffix ends the names of files that are not complete.
const TemporarySuffix = ".tmp"

// Read returns size bytes of a file from an offset on, or all for -1. There are less if the file is shorter.
func Read(d Dir, name string, offset int64, size int) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if size < 0 {
		all, err := f.Size()
		if err != nil {
			return nil, err
		}
		size = int(all)
	}
	bytes := make([]byte, size)
	n, err := ReadAt(f, bytes, offset)
	return bytes[:n], err
}

// ReadAt fills bytes from a file, and returns less only at its end.
func ReadAt(f File, bytes []byte, offset int64) (n int, err error) {
	n, err = f.ReadAt(bytes, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Write makes or replaces a file: see [Replace].
func Write(d Dir, name string, content []byte, synced bool) error {
	return Replace(d, name, synced, func(f File) error {
		_, err := f.WriteAt(content, 0)
		return err
	})
}

// Replace makes or replaces a file by one that write fills. If it is synced, its name becomes durable with the next sync
// of the directory.
func Replace(d Dir, name string, synced bool, write func(File) error) error {
	temporary := name + TemporarySuffix
	if err := Remove(d, temporary); err != nil {
		return err
	}
	f, err := d.Create(temporary)
	if err != nil {
		return err
	}
	if err = write(f); err == nil && synced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, Remove(d, temporary))
	}
	return nil
}

// Remove removes a file if it is there.
func Remove(d Dir, name string) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
