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
	"github.com/informd/informd/pkg/journal"
)

// FileBox is a [Box] in a file: <dir>/deadletters/<name>.ndjson, one letter per
// line, readable by its owner only. Directory and file are made when the first
// letter comes.
//
// The file is opened for each call: dead letters are rare, and an operator may move
// the file away at any time. It is never trimmed by itself. All files of a directory
// have limits together: 32 MiB for dead letters above 128 KiB, and 48 MiB for others.
// A letter's number is that of its line, from 1. A dropped letter leaves an empty line,
// so that the numbers of the others stay, until there are no others.
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

// FiledCounts counts the dead letters in the files below Dir. Its method may be called concurrently.
type FiledCounts struct {
	Dir string
	// Unreadable is called with the files that cannot be read, which do not count.
	Unreadable func(path string, err error)

	mu    sync.Mutex
	known map[string]counted // by the name of the sink
}

// counted is the number of dead letters in a file as it was.
type counted struct {
	file os.FileInfo
	n    uint64
}

// Get returns the number of dead letters in each file that has some, by the name of the sink. It
// reads only the files that have changed.
func (c *FiledCounts) Get(ctx context.Context) (map[string]uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, err := filesIn(filepath.Join(c.Dir, boxDir))
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts, known := make(map[string]uint64), make(map[string]counted)
	for _, file := range files {
		escaped, ours := strings.CutSuffix(file.Name(), boxSuffix)
		name, err := url.PathUnescape(escaped)
		if err != nil || !ours {
			continue // not informd's
		}
		box := NewFileBox(c.Dir, name)
		now, err := box.count(ctx, c.known[name])
		if ctx.Err() != nil {
			return nil, fmt.Errorf("count dead letters: %w", context.Cause(ctx))
		}
		if err != nil {
			c.Unreadable(box.path, err)
			continue
		}
		if known[name] = now; now.n > 0 {
			counts[name] = now.n
		}
	}
	c.known = known
	return counts, nil
}

// filesIn lists a directory, which need not exist.
func filesIn(dir string) ([]os.DirEntry, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return files, err
}

// count returns the number of letters in the file, which it reads if that is not the one from
// before. It keeps none of them in memory.
func (d *FileBox) count(ctx context.Context, before counted) (now counted, err error) {
	f, err := d.read()
	if f == nil || err != nil {
		return counted{}, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if now.file, err = f.Stat(); err != nil {
		return counted{}, fmt.Errorf("read dead letters: %w", err)
	}
	if b := before.file; b != nil && os.SameFile(b, now.file) && b.Size() == now.file.Size() && b.ModTime().Equal(now.file.ModTime()) {
		return before, nil
	}
	part, inLetter := make([]byte, 64<<10), false
	for ctx.Err() == nil {
		k, err := f.Read(part)
		for rest, ended := part[:k], true; ended; {
			var line []byte
			line, rest, ended = bytes.Cut(rest, []byte{'\n'})
			if !inLetter && len(bytes.TrimSpace(line)) > 0 {
				inLetter = true
				now.n++
			}
			inLetter = inLetter && !ended
		}
		if errors.Is(err, io.EOF) {
			return now, nil
		}
		if err != nil {
			return counted{}, fmt.Errorf("read dead letters: %w", err)
		}
	}
	return counted{}, ctx.Err()
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
	if err := d.fits(len(letter)); err != nil {
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

const (
	// smallLetter is the size up to which a dead letter is small. One without the data of its
	// event always is: it has the names twice, of 8 KiB at most, and JSON escapes take 6 bytes.
	smallLetter = 128 << 10
	// mostLarge limits the bytes of all files before a large dead letter, mostBytes before a
	// small one. The smallest embedded journal has the same limits. Drop writes a new file
	// beside the old one, so 128 MiB of disk are enough.
	mostLarge = 32 << 20
	mostBytes = 48 << 20
)

// errFull is the error of a dead letter beyond mostBytes.
var errFull = errors.New("dead letters are full")

// fits returns [journal.ErrTooLarge] if only a letter without data may have space beside those of
// all sinks. Two sinks that write at a time may exceed a limit by one letter.
func (d *FileBox) fits(size int) error {
	files, err := filesIn(filepath.Dir(d.path))
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	var taken int64
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), boxSuffix) {
			continue // of a Drop
		}
		if info, err := file.Info(); err == nil { // else it was removed
			taken += info.Size()
		}
	}
	switch with := taken + int64(size); {
	case size > smallLetter && with > mostLarge:
		return fmt.Errorf("dead letters take %d of %d bytes: %w", taken, mostLarge, journal.ErrTooLarge)
	case with > mostBytes:
		return fmt.Errorf("dead letters take %d of %d bytes: %w; redeliver or drop some (informd deadletters)", taken, mostBytes, errFull)
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
