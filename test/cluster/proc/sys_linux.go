package proc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// TiedToParent makes the kernel kill the child when its parent is gone, and gives
// it a process group of its own, so that Ctrl-C in a terminal reaches only the
// parent, which then ends its children in the right order.
//
// The kernel takes the thread that starts the child for the parent
// (golang/go#27505): the caller locks its goroutine to the thread until the child
// has ended.
func TiedToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// waitStopped blocks until all threads of a child that was sent SIGSTOP stand
// still, or the child is gone. WNOWAIT keeps the answer for the next call: a child
// frozen twice has stopped only once.
func waitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ECHILD) {
			return ErrNotRunning
		}
		return err
	}
}
