// Package output writes to descriptors that informd shares with other processes. The sinks
// stdout and file call it; it knows no events.
package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// slice is the longest poll. The end of a context does not interrupt a poll.
	slice = 100 * time.Millisecond
	// pause is between two attempts on an output that poll calls writable although it is not,
	// such as a regular file.
	pause = 10 * time.Millisecond
)

// Write writes all of p and returns how many bytes out took. The mode O_NONBLOCK belongs to all
// processes that share a pipe or a terminal, and each of them can set it. A full output then
// answers EAGAIN, which is no failure: Write waits until out is writable, and continues behind
// the last byte, as a blocking write does. It does the same after EINTR. The error is that of
// another failed write, or of ctx, which ends only such a wait.
func Write(ctx context.Context, out io.Writer, p []byte) (n int, err error) {
	for waited := false; ; {
		written, err := out.Write(p[n:])
		n += written
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil && n < len(p):
			return n, io.ErrShortWrite
		case !errors.Is(err, syscall.EAGAIN):
			return n, err
		}
		if waited && written == 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
		if err := wait(ctx, out); err != nil {
			return n, fmt.Errorf("wait for the reader: %w", err)
		}
		waited = true
	}
}

// wait waits until out is writable or broken. Without a descriptor it does not wait.
func wait(ctx context.Context, out io.Writer) error {
	file, ok := out.(syscall.Conn)
	if !ok {
		return ctx.Err()
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	ready := false
	for !ready && err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		err = conn.Control(func(fd uintptr) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(slice/time.Millisecond))
			ready = n > 0 || err != nil && !errors.Is(err, syscall.EINTR) // the next write has the error
		})
	}
	return err
}
