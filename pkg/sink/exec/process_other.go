//go:build !linux

package exec

import "syscall"

// attributes make a process the leader of a group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
