//go:build !linux

package exec

import (
	osexec "os/exec"
	"syscall"
)

// attributes make a process the leader of a group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits for the end of the process.
func awaitEnd(cmd *osexec.Cmd) { _ = cmd.Wait() }
