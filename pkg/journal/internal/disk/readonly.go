package disk

import "io/fs"

// ReadOnly is a [Dir] in which nothing changes: files are not removed, and none can be made.
type ReadOnly struct{ Dir }

// Create implements [Dir].
func (ReadOnly) Create(name string) (File, error) { return nil, refused("create", name) }

// Rename implements [Dir].
func (ReadOnly) Rename(from, _ string) error { return refused("rename", from) }

// Remove implements [Dir]. What nobody needs stays.
func (ReadOnly) Remove(string) error { return nil }

// Sync implements [Dir].
func (ReadOnly) Sync() error { return nil }

func refused(call, name string) error {
	return &fs.PathError{Op: call, Path: name, Err: fs.ErrPermission}
}
