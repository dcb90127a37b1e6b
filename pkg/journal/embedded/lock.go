package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/informd/informd/internal/private"
)

// lockFile is locked, not just present, while a process has the journal open:
// a crash leaves the file and not the lock.
const lockFile = "lock"

// lock holds a directory for this process.
type lock struct {
	file *os.File
}

// takeLock fails at once if another process holds the directory.
func takeLock(dir string) (*lock, error) {
	file, err := private.Open(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of journal.dir %s: %w", dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder := lockHolder(file)
		return nil, errors.Join(
			fmt.Errorf("journal.dir %s is in use by another informd%s: two processes on one directory destroy each other's messages; stop it or set another journal.dir", dir, holder),
			file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock journal.dir %s: %w", dir, err), file.Close())
	}
	l := &lock{file: file}
	if err := l.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("write the lock of journal.dir %s: %w", dir, err), l.release())
	}
	return l, nil
}

// sign writes who holds the lock, for people and for the next one's error.
func (l *lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
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
func (l *lock) release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release the lock of journal.dir: %w", err)
	}
	return nil
}

func lockHolder(file io.Reader) string {
	content, err := io.ReadAll(io.LimitReader(file, 32))
	pid, parseErr := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || parseErr != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}
