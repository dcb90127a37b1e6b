package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/test/cluster/proc"
)

// endGrace is how long a process has to end by itself.
const endGrace = 20 * time.Second

// launch says how to run a process.
type launch struct {
	path   string
	args   []string
	stdout *os.File // nil: nowhere
	log    string   // file of its standard error
	env    []string
	cpus   []int // where it may run; nil: everywhere
}

// child is a process that was started here and is ended here.
type child struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
	err    error // valid once exited is closed
}

func start(l launch) (*child, error) {
	log, err := os.OpenFile(l.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(l.path, l.args...), log: l.log, exited: make(chan struct{})} //nolint:noctx // stop ends it
	c.cmd.Env = append(os.Environ(), l.env...)
	if c.cmd.Stderr = log; l.stdout != nil {
		c.cmd.Stdout = l.stdout
	}
	c.cmd.SysProcAttr = proc.TiedToParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // as TiedToParent wants it
		defer close(c.exited)
		defer log.Close() //nolint:errcheck // the child has written it
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(l.path), err)
	}
	return c, pin(c.pid(), l.cpus)
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the process and waits for it.
func (c *child) stop() error {
	err := c.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		return c.failure()
	}
	select {
	case <-c.exited:
		return err
	case <-time.After(endGrace):
		err = c.cmd.Process.Kill()
		<-c.exited
		return err
	}
}

// kill ends the process at once.
func (c *child) kill() error {
	err := c.cmd.Process.Kill()
	<-c.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// failure is why a process has ended that was to run.
func (c *child) failure() error {
	<-c.exited
	text, _ := os.ReadFile(c.log) // what there is
	return fmt.Errorf("%s ended (%w):\n%s", filepath.Base(c.cmd.Path), errors.Join(c.err, errors.New("by itself")), tail(string(text)))
}

func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// pin keeps a process, with all the threads that it has or will have, on some CPUs.
func pin(pid int, cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	// A thread that is made meanwhile has the mask of the one that made it: after
	// the second time there is none left.
	for range 2 {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("pin thread %d to CPUs %v: %w", tid, cpus, err)
			}
		}
	}
	return nil
}

// cpu is the CPU time of all threads that the process has or had.
func (c *child) cpu() (time.Duration, error) {
	var t unix.Timespec
	// The clock of another process: see clock_getcpuclockid(3).
	if err := unix.ClockGettime(int32(^c.pid())<<3|2, &t); err != nil {
		return 0, errors.Join(fmt.Errorf("read CPU clock: %w", err), c.failure())
	}
	return time.Duration(t.Nano()), nil
}

// memory reads a field of /proc/<pid>/status, in MiB.
func (c *child) memory(field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kib) / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/%d/status", field, c.pid())
}

// eventually polls until done, and gives up after the patience or when ctx ends.
func eventually(ctx context.Context, what string, every, patience time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, patience, errors.Join(ctx.Err(), err))
		}
	}
}
