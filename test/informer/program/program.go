// Package program runs the example programs for tests.
package program

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Program is a process that runs until its end is asked for, at the latest by the end of the test.
type Program struct {
	mu   sync.Mutex
	text strings.Builder
	end  func() error
}

// Start starts a program with a kubeconfig in its environment. If the test fails, it logs the output.
func Start(t *testing.T, kubeconfig, path string, arguments ...string) *Program {
	t.Helper()
	p := &Program{}
	run := exec.CommandContext(context.WithoutCancel(t.Context()), path, arguments...)
	run.Env = append(run.Environ(), "KUBECONFIG="+kubeconfig)
	run.Stdout, run.Stderr = p, p
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	p.end = sync.OnceValue(func() error { return errors.Join(run.Process.Signal(syscall.SIGINT), run.Wait()) })
	t.Cleanup(func() {
		if err := p.End(); err != nil || t.Failed() {
			t.Errorf("the program ended with %v, and has printed:\n%s", err, p)
		}
	})
	return p
}

// End interrupts the program, and returns an error unless it ends with exit code 0.
func (p *Program) End() error { return p.end() }

// Write implements [io.Writer] for the output of the program.
func (p *Program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(text)
}

// String returns the output so far.
func (p *Program) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
