package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const (
	ownerOnly = 0o600
	// maxSocketPath is what an address of a unix socket holds on every system.
	maxSocketPath = 103
)

// socket is a unix socket that its owner and root can connect to.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	lock *os.File
}

// listenSocket makes the socket. A lock on the file beside it says that an informd
// uses it; without a lock the socket is one that a killed informd left, and is replaced.
// Anything else at the path is an error.
func listenSocket(path string) (*socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	lock, err := lockSocket(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &socket{path: path, lock: lock}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

func lockSocket(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, ownerOnly)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another informd uses it: stop that one, or set another admin.socket")
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func (s *socket) listen() error {
	switch info, err := os.Lstat(s.path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the path is in use by something that is no socket: remove it, or set another admin.socket")
	default:
		if err := os.Remove(s.path); err != nil {
			return err
		}
	}
	address, done, err := socketAddress(s.path)
	if err != nil {
		return err
	}
	defer done()
	l, err := (&net.ListenConfig{Control: privately}).Listen(context.Background(), "unix", address)
	if err != nil {
		return err
	}
	unix, ok := l.(*net.UnixListener)
	if !ok {
		return errors.Join(fmt.Errorf("the listener is a %T", l), l.Close())
	}
	unix.SetUnlinkOnClose(false)
	err = os.Chmod(s.path, ownerOnly)
	if err == nil {
		s.made, err = os.Lstat(s.path)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s.UnixListener = unix
	return nil
}

// privately gives the socket its mode before it has a name. Systems that cannot do that
// have it a moment later.
func privately(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), ownerOnly) })
}

// Close removes the socket, unless another one is in its place.
func (s *socket) Close() error {
	var removed error
	if is, err := os.Lstat(s.path); err == nil && os.SameFile(is, s.made) {
		removed = os.Remove(s.path)
	}
	return errors.Join(s.UnixListener.Close(), removed, s.lock.Close())
}

// socketAddress returns an address for a path of any length; done is called after its use.
func socketAddress(path string) (address string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	address = filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path))
	if _, err := os.Stat(filepath.Dir(address)); err != nil || len(address) > maxSocketPath {
		return "", nil, errors.Join(fmt.Errorf("the path has more than %d characters: set a shorter admin.socket", maxSocketPath), dir.Close())
	}
	return address, func() { _ = dir.Close() }, nil // it was only looked up
}

// DialSocket connects to the socket of a running informd.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	address, done, err := socketAddress(path)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	defer done()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn, nil
}
