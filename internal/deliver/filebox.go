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
// name of the sink. It reads the files whole.
func CountFiled(dir string) (map[string]uint64, error) {
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
		lines, err := NewFileBox(dir, name).lines()
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			if len(line) > 0 {
				counts[name]++
			}
		}
	}
	return counts, nil
}

// Place implements [Box]: the path of the file, which need not exist yet.
func (d *FileBox) Place() string { return d.path }

// Each implements [Box].
func (d *FileBox) Each(ctx context.Context, take func(number uint64, letter []byte) error) error {
	d.mu.Lock()
	lines, err := d.lines()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	for i, line := range lines {
		if len(line) == 0 {
			continue
		}
		if err := errors.Join(ctx.Err(), take(uint64(i)+1, line)); err != nil {
			return err
		}
	}
	return nil
}

// lines reads the whole file, empty lines included.
func (d *FileBox) lines() ([][]byte, error) {
	f, err := private.Open(d.path, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var all [][]byte
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			all = append(all, bytes.TrimSpace(line))
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
	}
}

// Drop implements [Box]. It writes the rest to a new file and puts that in the
// place of the old one.
func (d *FileBox) Drop(ctx context.Context, numbers ...uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines, err := d.lines()
	if err := errors.Join(ctx.Err(), err); err != nil || len(lines) == 0 {
		return err
	}
	var rest []byte
	for i, line := range lines {
		if !slices.Contains(numbers, uint64(i)+1) {
			rest = append(rest, line...)
		}
		rest = append(rest, '\n')
	}
	if len(bytes.TrimSpace(rest)) == 0 {
		rest = nil
	}
	if err := errors.Join(private.Replace(d.path, rest), private.SyncDir(d.path)); err != nil {
		return fmt.Errorf("drop dead letters: %w", err)
	}
	return nil
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
