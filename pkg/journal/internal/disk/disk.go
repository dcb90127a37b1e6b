// Package disk is the directory of the log: the calls of a file system that the log makes, and
// the lock that keeps other processes away. Package disktest has a simulated one, which loses what
// was not synced.
package disk

import (
	"errors"
	"io"
	"syscall"
)

// Dir is one directory. Its methods may be called concurrently. Names have no path, and lead to
// regular files of informd's user only.
type Dir interface {
	// Create makes a file, which must not exist.
	Create(name string) (File, error)
	// Open opens a file to read it.
	Open(name string) (File, error)
	// Rename puts a file in the place of another one, or under a free name.
	Rename(from, to string) error
	// Remove deletes a file. Open files stay readable.
	Remove(name string) error
	// Names returns the names of all files, in no order.
	Names() ([]string, error)
	// Sync makes the names durable: what was created, renamed and removed. A file exists after a
	// crash only if its directory was synced.
	Sync() error
}

// File is an open file. ReadAt may be called concurrently with all other methods.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Truncate cuts the file off behind size.
	Truncate(size int64) error
	// Sync makes the bytes durable. After an error it must not be repeated: the operating system
	// may have dropped what it could not write, and then reports success.
	Sync() error
	Size() (int64, error)
}

// IsFull reports whether an error says that the file system or a quota has no space.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
