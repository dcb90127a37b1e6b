//go:build !linux

package proc

import "syscall"

// TiedToParent gives the child a process group of its own. There is no
// parent-death signal here: a parent that is killed leaves its children behind.
func TiedToParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// waitStopped does not wait: SIGSTOP takes effect a moment later.
func waitStopped(int) error { return nil }
