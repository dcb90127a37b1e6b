package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"github.com/informd/informd/internal/private"
)

// log is the current file and the older ones beside it.
type log struct {
	path     string
	maxFiles int
	// beginnings are how lines begin that are informd's.
	beginnings []string
	logger     *slog.Logger

	// file is the current file, locked; nil if it has to be opened. size is its
	// length, which always is the end of a line.
	file *os.File
	size int64
}

// ensure makes the log ready to append to, in the file that is at path now.
func (l *log) ensure() error {
	if l.file == nil {
		return l.open()
	}
	own, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("write file: %w", err) // names the path itself
	}
	if at, err := os.Lstat(l.path); err == nil && os.SameFile(own, at) {
		l.size = own.Size() // somebody may have emptied it
		return nil
	}
	l.logger.Info("file moved or removed; writing a new one", "path", l.path)
	if err := l.close(); err != nil {
		return err
	}
	return l.open()
}

// open opens, locks and repairs the file at path, or makes it.
func (l *log) open() error {
	// No waiting for the other side if it is a pipe, and no following a link
	// that somebody else may have put there.
	const flags = os.O_RDWR | os.O_APPEND | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(l.path, flags, 0o600)
	if err != nil {
		return explainOpen(l.path, err)
	}
	if err := l.adopt(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// adopt makes f the current file.
func (l *log) adopt(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("open file %s: the path is not a regular file (%s); set another path", l.path, info.Mode().Type())
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("open file %s: another sink or another informd has the file open; give each its own path: %w", l.path, err)
		}
		return fmt.Errorf("lock file %s: %w", l.path, err)
	}
	// Who held the lock until now may have moved the file.
	if at, err := os.Lstat(l.path); err != nil || !os.SameFile(info, at) {
		return fmt.Errorf("open file %s: another program moved the file meanwhile", l.path)
	}
	size, err := l.repair(f)
	if err != nil {
		return err
	}
	if size == 0 { // it may be new
		if err := private.SyncDir(l.path); err != nil {
			return err
		}
	}
	l.file, l.size = f, size
	return nil
}

// maxTail is how long a half line may be: longer than any event.
const maxTail = 64 << 20

// repair deals with a half line at the end of f, which a crash left there and which was
// never acknowledged. It returns the size. What informd did not write it leaves alone:
// the file and the half line must begin as a line does, and a line that lacks nothing but
// its end gets that.
func (l *log) repair(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("open file: %w", err)
	}
	size := info.Size()
	if ours, err := l.begins(f, 0, size); err != nil {
		return 0, fmt.Errorf("read file: %w", err)
	} else if !ours {
		return 0, fmt.Errorf("open file %s: the file does not begin as a file of this format, so informd did not write it; move the file, or set another path", l.path)
	}
	end, err := lastLineEnd(f, size)
	if err != nil {
		return 0, fmt.Errorf("read file: %w", err)
	}
	if end == size {
		return size, nil
	}
	ours, err := l.begins(f, end, size)
	if err != nil {
		return 0, fmt.Errorf("read file: %w", err)
	}
	if !ours || size-end > maxTail {
		return 0, fmt.Errorf("open file %s: the last line is incomplete, and informd did not write it; move the file, or complete or remove that line", l.path)
	}
	tail := make([]byte, size-end)
	if _, err := f.ReadAt(tail, end); err != nil {
		return 0, fmt.Errorf("read file: %w", err)
	}
	if json.Valid(tail) {
		return size + 1, l.endLine(f)
	}
	return end, l.cutLine(f, end, size)
}

// begins reports whether what is between from and to begins as a line does.
func (l *log) begins(f io.ReaderAt, from, to int64) (bool, error) {
	for _, beginning := range l.beginnings {
		head := make([]byte, min(to-from, int64(len(beginning))))
		if _, err := f.ReadAt(head, from); err != nil {
			return false, err
		}
		if strings.HasPrefix(beginning, string(head)) {
			return true, nil
		}
	}
	return false, nil
}

// endLine ends the last line.
func (l *log) endLine(f *os.File) error {
	_, err := f.WriteString("\n")
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("end unfinished line: %w", err)
	}
	l.logger.Warn("line of an interrupted write completed; its event may repeat", "path", l.path)
	return nil
}

// cutLine cuts off what is behind end.
func (l *log) cutLine(f *os.File, end, size int64) error {
	err := f.Truncate(end)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("cut unfinished line: %w", err)
	}
	l.logger.Warn("unfinished line of an interrupted write removed; its event follows", "path", l.path, "bytes", size-end)
	return nil
}

// lastLineEnd returns the offset behind the last newline, 0 if there is none.
func lastLineEnd(f io.ReaderAt, size int64) (int64, error) {
	block := make([]byte, 64<<10)
	for end := size; end > 0; {
		start := max(0, end-int64(len(block)))
		part := block[:end-start]
		if _, err := f.ReadAt(part, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// close closes the current file, if one is open, and with it gives up the lock.
func (l *log) close() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file, l.size = nil, 0
	if err := f.Close(); err != nil {
		return fmt.Errorf("close file: %w", err)
	}
	return nil
}

// explainOpen says what to do about the usual mistakes.
func explainOpen(path string, err error) error {
	err = cause(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open file %s: its directory does not exist; create the directory, or mount its volume: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("open file %s: user %d has no permission to write there; change the owner or the path: %w", path, os.Getuid(), err)
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("open file %s: the path is a symbolic link; set path to its target: %w", path, err)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("open file %s: the path is a directory; add the name of the file: %w", path, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open file %s: the file system is read-only; mount a volume there: %w", path, err)
	default:
		return fmt.Errorf("open file %s: %w", path, err)
	}
}

// cause is err without the path, which the message around it names already.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
