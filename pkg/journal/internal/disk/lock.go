package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/informd/informd/internal/private"
)

// lockFile is locked, not just present, while a process has the journal open:
// a crash leaves the file and not the lock. It names the process.
const lockFile = "lock"

// lock holds a directory for this process: by a lock on the directory itself, which stays
// when files in it are removed, and by one on a file in it. File systems that lock no
// directories (NFS) have the second alone.
type lock struct {
	dir, file *os.File
}

// takeLock fails at once if another process holds the directory.
func takeLock(dir string) (*lock, error) {
	l := &lock{}
	err := l.take(dir)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("journal.dir %s is in use by another informd%s: two processes on one directory would destroy the log; stop that process, or set another journal.dir",
			dir, lockHolder(dir))
	} else if err != nil {
		err = fmt.Errorf("lock journal.dir %s: %w", dir, err)
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

func (l *lock) take(dir string) error {
	var err error
	if l.dir, err = os.Open(dir); err != nil {
		return err
	}
	if err := flock(l.dir); err != nil && !locksNoDirectories(err) {
		return err
	}
	path := filepath.Join(dir, lockFile)
	if l.file, err = private.Open(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := flock(l.file); err != nil {
		return err
	}
	if err := errors.Join(stillAt(l.dir, dir), stillAt(l.file, path)); err != nil {
		return err
	}
	// For people, and for the next one's error.
	_, err = l.file.WriteAt(fmt.Appendf(nil, "%-10d\n", os.Getpid()), 0)
	return err
}

func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// locksNoDirectories reports whether the file system cannot lock a directory.
func locksNoDirectories(err error) bool {
	return errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK)
}

// stillAt is an error if another file has taken the place of one that is locked.
func stillAt(f *os.File, path string) error {
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	if at, err := os.Stat(path); err != nil || !os.SameFile(locked, at) {
		return fmt.Errorf("%s was removed or replaced during the start; start informd again", path)
	}
	return nil
}

// isIn reports whether the directory of that name is still the one that was locked.
func (l *lock) isIn(dir string) bool {
	mine, err := l.file.Stat()
	if err != nil {
		return true // the file says nothing about the directory
	}
	there, err := os.Stat(filepath.Join(dir, lockFile))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return os.SameFile(mine, there)
}

// release gives the directory up. The file stays: to remove it would let two
// processes hold locks on two files of the same name.
func (l *lock) release() (err error) {
	for _, f := range []*os.File{l.file, l.dir} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// lockHolder names the process that signed the lock file, if it is known.
func lockHolder(dir string) string {
	content, err := private.Read(filepath.Join(dir, lockFile))
	pid, parseErr := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || parseErr != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}
