// Package flock is an advisory lock on a file, held until it is released or
// its process is gone, however that process ended. Temp dirs and the binary
// cache use it to tell what is in use from what was left behind.
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ErrHeld says that another process, or another Lock of this one, has the lock.
var ErrHeld = errors.New("lock is held by another process")

const retryInterval = 100 * time.Millisecond

// Lock is a held lock. Child processes do not inherit it.
type Lock struct {
	file *os.File
}

// Try takes the lock on the file at path, creating the file if needed, and
// does not wait: a lock that somebody else has is ErrHeld.
func Try(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return lock(file)
}

// TryExisting is Try for a file that must already exist.
func TryExisting(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return lock(file)
}

// Wait takes the lock on the file at path, and blocks until it is free or ctx
// ends. onWait, if not nil, is called once before blocking.
func Wait(ctx context.Context, path string, onWait func()) (*Lock, error) {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	for {
		held, err := Try(path)
		if !errors.Is(err, ErrHeld) {
			return held, err
		}
		if onWait != nil {
			onWait()
			onWait = nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Release gives the lock back. The file stays.
func (l *Lock) Release() error { return l.file.Close() }

func lock(file *os.File) (*Lock, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &Lock{file: file}, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrHeld
	}
	return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
}
