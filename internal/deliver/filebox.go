package deliver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/informd/informd/internal/private"
)

// FileBox is a [Box] in a file: <dir>/deadletters/<name>.ndjson, one letter per
// line, readable by its owner only. Directory and file are made when the first
// letter comes.
//
// The file is opened for each call: dead letters are rare, and an operator may move
// the file away at any time. It is never trimmed by itself. A letter's number is
// that of its line, from 1. A dropped letter leaves an empty line, so that the
// numbers of the others stay, until there are no others.
type FileBox struct {
	path string

	mu sync.Mutex // one call at a time
}

// NewFileBox names the file for the sink called name below dir. It touches
// nothing on disk.
func NewFileBox(dir, name string) *FileBox {
	// A name may have characters that mean something in a path.
	return &FileBox{path: filepath.Join(dir, boxDir, url.PathEscape(name)+boxSuffix)}
}

const (
	boxDir    = "deadletters"
	boxSuffix = ".ndjson"
)

// CountFiled returns the number of dead letters in each file below dir that has some, by the
// name of the sink. Files that cannot be read do not count; it calls unreadable with them.
func CountFiled(dir string, unreadable func(path string, err error)) (map[string]uint64, error) {
	files, err := filepath.Glob(filepath.Join(dir, boxDir, "*"+boxSuffix))
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts := make(map[string]uint64)
	for _, path := range files {
		name, err := url.PathUnescape(strings.TrimSuffix(filepath.Base(path), boxSuffix))
		if err != nil {
			continue // not informd's
		}
		n, err := NewFileBox(dir, name).count()
		if err != nil {
			unreadable(path, err)
		} else if n > 0 {
			counts[name] = n
		}
	}
	return counts, nil
}

// count returns the number of letters in the file, and keeps none of them in memory.
func (d *FileBox) count() (n uint64, err error) {
	f, err := d.read()
	if f == nil || err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	part, counted := make([]byte, 64<<10), false
	for {
		k, err := f.Read(part)
		for rest, ended := part[:k], true; ended; {
			var line []byte
			line, rest, ended = bytes.Cut(rest, []byte{'\n'})
			if !counted && len(bytes.TrimSpace(line)) > 0 {
				counted = true
				n++
			}
			counted = counted && !ended
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read dead letters: %w", err)
		}
	}
}

// Place implements [Box]: the path of the file, which need not exist yet.
func (d *FileBox) Place() string { return d.path }

// Each implements [Box], with the dead letters that are in the file when it is called. It reads one
// at a time.
func (d *FileBox) Each(ctx context.Context, take func(number uint64, letter []byte) error) error {
	f, size, err := d.readLocked()
	if f == nil || err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	// Without the lock, so that take may call Drop: that puts another file in this one's place,
	// and Put only appends.
	return eachLine(io.LimitReader(f, size), func(number uint64, line []byte) error {
		if len(line) == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return take(number, line)
	})
}

// readLocked opens the file between two calls of others, and returns its size then.
func (d *FileBox) readLocked() (f *os.File, size int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err = d.read()
	if f == nil || err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("read dead letters: %w", err), f.Close())
	}
	return f, info.Size(), nil
}

// read opens the file, and returns nil if there is none.
func (d *FileBox) read() (*os.File, error) {
	f, err := private.Open(d.path, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // no letters is no error
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return f, nil
}

// eachLine calls take with every line without white space around it, empty ones included, and
// its number from 1.
func eachLine(from io.Reader, take func(number uint64, line []byte) error) error {
	r := bufio.NewReader(from)
	for number := uint64(1); ; number++ {
		line, failed := r.ReadBytes('\n')
		if len(line) > 0 {
			if err := take(number, bytes.TrimSpace(line)); err != nil {
				return err
			}
		}
		if errors.Is(failed, io.EOF) {
			return nil
		}
		if failed != nil {
			return fmt.Errorf("read dead letters: %w", failed)
		}
	}
}

// Drop implements [Box]. It writes the rest to a new file and puts that in the
// place of the old one.
func (d *FileBox) Drop(ctx context.Context, numbers ...uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil || len(numbers) == 0 {
		return err
	}
	f, err := d.read()
	if f == nil || err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	err = private.ReplaceBy(d.path, func(w io.Writer) error { return copyWithout(w, f, slices.Sorted(slices.Values(numbers))) })
	if err := errors.Join(err, private.SyncDir(d.path)); err != nil {
		return fmt.Errorf("drop dead letters: %w", err)
	}
	return nil
}

// copyWithout writes the lines without those of the numbers, which become empty. If no others
// are left, it writes nothing.
func copyWithout(w io.Writer, from io.Reader, numbers []uint64) error {
	var before []byte // the ends of lines that are still to be written
	left := false
	err := eachLine(from, func(number uint64, line []byte) error {
		if _, drop := slices.BinarySearch(numbers, number); !drop && len(line) > 0 {
			left = true
			if _, err := w.Write(append(before, line...)); err != nil {
				return err
			}
			before = before[:0]
		}
		before = append(before, '\n')
		return nil
	})
	if err == nil && left {
		_, err = w.Write(before)
	}
	return err
}

// Put implements [Box].
func (d *FileBox) Put(ctx context.Context, letter []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := d.open()
	if err == nil {
		err = errors.Join(appendLine(f, letter), f.Close())
	}
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	return nil
}

// appendLine writes a line to stable storage.
func appendLine(f *os.File, line []byte) error {
	torn, err := endsInMidLine(f)
	if err != nil {
		return err
	}
	if torn {
		// A write that was cut short must not spoil this line, too.
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// open opens the file for appending. A new file's directory entry is synced as
// well: without it the file itself may be gone after a power failure.
func (d *FileBox) open() (*os.File, error) {
	const mode = os.O_RDWR | os.O_APPEND
	f, err := private.Open(d.path, mode, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	dir := filepath.Dir(d.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := private.Dir(dir); err != nil {
		return nil, err
	}
	if f, err = private.Open(d.path, mode|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := private.SyncDir(d.path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// endsInMidLine reports whether the file is not empty and lacks its last newline.
func endsInMidLine(f *os.File) (bool, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return false, err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], end-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
