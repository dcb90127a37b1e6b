package exec

import "syscall"

// attributes make a process the leader of a group, which ends with informd.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
