package disk

import (
	"bytes"
	"io/fs"
	"slices"
	"sync"
)

// Overlay is a [Dir] that changes nothing: what is written to it is in memory, above the files of
// another one.
type Overlay struct {
	base Dir

	mu      sync.Mutex
	files   map[string]*memory
	removed map[string]struct{}
}

// NewOverlay returns an overlay above base.
func NewOverlay(base Dir) *Overlay {
	return &Overlay{base: base, files: map[string]*memory{}, removed: map[string]struct{}{}}
}

// Create implements [Dir].
func (o *Overlay) Create(name string) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &memory{}
	o.files[name] = f
	return f, nil
}

// Open implements [Dir].
func (o *Overlay) Open(name string) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f := o.files[name]; f != nil {
		return f, nil
	}
	if _, gone := o.removed[name]; gone {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o.base.Open(name)
}

// Rename implements [Dir], for files that were created.
func (o *Overlay) Rename(from, to string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.files[from]
	if f == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(o.files, from)
	o.files[to] = f
	return nil
}

// Remove implements [Dir].
func (o *Overlay) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.files, name)
	o.removed[name] = struct{}{}
	return nil
}

// Names implements [Dir].
func (o *Overlay) Names() ([]string, error) {
	names, err := o.base.Names()
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool {
		_, gone := o.removed[name]
		return gone
	})
	for name := range o.files {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Sync implements [Dir].
func (o *Overlay) Sync() error { return nil }

// Free implements [Dir].
func (o *Overlay) Free() (free, total uint64, err error) { return o.base.Free() }

// memory is a file in memory.
type memory struct {
	mu    sync.Mutex
	bytes []byte
}

// ReadAt implements [File].
func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.NewReader(m.bytes).ReadAt(p, off)
}

// WriteAt implements [File].
func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if grow := int(off) + len(p) - len(m.bytes); grow > 0 {
		m.bytes = append(m.bytes, make([]byte, grow)...)
	}
	return copy(m.bytes[off:], p), nil
}

// Truncate implements [File].
func (m *memory) Truncate(size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes = m.bytes[:min(int(size), len(m.bytes))]
	return nil
}

// Size implements [File].
func (m *memory) Size() (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.bytes)), nil
}

// Sync implements [File].
func (*memory) Sync() error { return nil }

// Close implements [File].
func (*memory) Close() error { return nil }
