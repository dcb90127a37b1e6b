package exec

import (
	"errors"
	osexec "os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes make a process the leader of a group, which ends with informd.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits for the end of the process and leaves it to cmd.Wait: until then, no other
// process can have its id.
func awaitEnd(cmd *osexec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), syscall.EINTR) {
		continue
	}
}
