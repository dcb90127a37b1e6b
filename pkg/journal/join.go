package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/segment"
	"github.com/informd/informd/pkg/journal/internal/wal"
)

// join makes the sealed files those of the leader, and begins the active one from its start. Files of before stay
// if the leader has the same. A copy of an earlier moment of the same term stays usable meanwhile; any other one may
// have sequences that the leader has used again.
func (m *Mirror) join(ctx context.Context, leader Leader, term int64) error {
	if err := m.closeFile(); err != nil {
		return err
	}
	for {
		files, err := filesOf(ctx, leader)
		if err != nil {
			return err // it may be gone: until it answers, the copy stays what it is
		}
		is := copyPartial
		if m.state.Term == term && m.state.Is != copyPartial {
			is = copyStale
		}
		if err = m.note(is, term); err == nil {
			err = m.joinFiles(ctx, leader, files, is == copyPartial)
		}
		if errors.Is(err, ErrNoFile) && ctx.Err() == nil {
			continue // compaction has replaced it
		}
		if err != nil {
			return err
		}
		m.version, m.goal, m.pending = files.Version, files.Active, nil
		return m.begin(files.Active.Name)
	}
}

// joinFiles makes the sealed files those of a list. What is not like them goes before, or when the others are here.
func (m *Mirror) joinFiles(ctx context.Context, leader Leader, files Files, before bool) error {
	var have []string
	err := m.remove(func(name string) (bool, error) {
		same, err := m.same(&files, name)
		if same {
			have = append(have, name)
		}
		return before && wal.IsFile(name) && !same, err
	})
	if err != nil {
		return err
	}
	return m.copyMissing(ctx, leader, files, have)
}

// errNoLog: what answers is no informd, or one of another format.
var errNoLog = errors.New("the answer is not about the files of a log")

// filesOf returns the list of a leader, if its names are those of a log: they become names of files here.
func filesOf(ctx context.Context, leader Leader) (Files, error) {
	files, err := leader.Files(ctx)
	if err != nil {
		return files, err
	}
	for _, f := range append([]File{files.Active}, files.Sealed...) {
		if _, ok := segment.ParseName(f.Name); !ok {
			return Files{}, fmt.Errorf("%w: %q", errNoLog, f.Name)
		}
	}
	return files, nil
}

// remove removes the files that go.
func (m *Mirror) remove(goes func(name string) (bool, error)) error {
	names, err := m.dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		is, err := goes(name)
		if is && err == nil {
			err = m.dir.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return m.dir.Sync()
}

// copyMissing copies sealed files but those that are here, and removes those that are not in the list. The index file
// of a segment, which tells a later join that it is the same, comes behind it.
func (m *Mirror) copyMissing(ctx context.Context, leader Leader, files Files, here []string) error {
	for _, f := range files.Sealed {
		if slices.Contains(here, f.Name) {
			continue
		}
		if err := m.copyFile(ctx, leader, f); err != nil {
			return err
		}
	}
	if err := m.dir.Sync(); err != nil {
		return err
	}
	active, _ := segment.ParseName(files.Active.Name)
	return m.remove(func(name string) (bool, error) {
		n, _ := segment.ParseName(name)
		_, listed := files.Find(name)
		return wal.IsFile(name) && !listed && n.Number < active.Number, nil
	})
}

// same reports whether a file is a sealed one that the leader has, too. No sealed file ever changes.
func (m *Mirror) same(files *Files, name string) (bool, error) {
	f, listed := files.Find(name)
	if !listed {
		return false, nil
	}
	n, _ := segment.ParseName(name)
	size, _, err := m.end(name)
	if err != nil || f.Size > 0 && size != f.Size {
		return false, err
	}
	_, sum, err := m.end(n.Index())
	return f.Sum != 0 && sum == f.Sum, err
}

// end returns the size of a file, and its last four bytes as a number: 0 if there is none.
func (m *Mirror) end(name string) (size int64, sum uint32, err error) {
	f, err := m.dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if size, err = f.Size(); err != nil || size < 4 {
		return size, 0, err
	}
	var last [4]byte
	_, err = f.ReadAt(last[:], size-4)
	return size, binary.LittleEndian.Uint32(last[:]), err
}

// copyFile copies a sealed file. It has its name when it is complete and synced.
func (m *Mirror) copyFile(ctx context.Context, leader Leader, f File) error {
	return disk.Replace(m.dir, f.Name, true, func(to disk.File) error {
		size := int64(0)
		for ended := false; !ended; {
			c, err := leader.Chunk(ctx, f.Name, size, false)
			if err == nil {
				_, err = to.WriteAt(c.Bytes, size)
			}
			if err != nil {
				return err
			}
			size, ended = size+int64(len(c.Bytes)), c.Ended
		}
		if f.Size > 0 && size != f.Size {
			return fmt.Errorf("%s has %d bytes, and the leader's has %d", f.Name, size, f.Size)
		}
		return nil
	})
}
