package proc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/informd/informd/test/cluster/proc"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// The test binary plays the server, too: with this variable it does what the
// variable's value names.
const roleEnv = "INFORMD_PROC_TEST_ROLE"

const patience = 20 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		goleak.VerifyTestMain(m)
	case "sleep": // ends on SIGTERM, by the default action of Go programs
		fmt.Println("sleeping")
		<-time.After(time.Minute)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("sleeping")
		<-time.After(time.Minute)
	case "parent":
		parent()
	}
}

// parent starts a child in a temp dir, tells about both and waits to be killed.
func parent() {
	dir, err := proc.TempDir("proc-test")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv(roleEnv, "sleep")
	p := newProcess(dir.Join("log"), 0)
	if err := p.Start(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(p.PID(), dir.Join())
	<-time.After(time.Minute)
}

func newProcess(log string, grace time.Duration) *proc.Process {
	return proc.New(proc.Spec{
		Name:  "server",
		Path:  os.Args[0],
		Log:   log,
		Grace: grace,
		Ready: func(context.Context) error {
			if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "sleeping") {
				return errors.New("not yet")
			}
			return nil
		},
	})
}

func start(t *testing.T, role string, grace time.Duration) *proc.Process {
	t.Helper()
	t.Setenv(roleEnv, role)
	p := newProcess(filepath.Join(t.TempDir(), "log"), grace)
	must(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-ticker.C:
		}
	}
}

func TestKillFreezeAndStartAgain(t *testing.T) {
	p := start(t, "sleep", 0)
	if err := p.Start(t.Context()); err == nil {
		t.Error("started twice")
	}
	for range 2 { // freezing a frozen process must not block
		must(t, p.Freeze())
	}
	for range 2 {
		must(t, p.Thaw())
	}
	for range 2 { // killing a dead process is fine
		must(t, p.Kill())
	}
	if p.Running() {
		t.Error("runs after Kill")
	}
	if err := p.Freeze(); !errors.Is(err, proc.ErrNotRunning) {
		t.Errorf("freeze a dead process: %v", err)
	}
	must(t, p.Start(t.Context()))
}

func TestStopReportsWhatDidNotEndWell(t *testing.T) {
	stubborn := start(t, "stubborn", 50*time.Millisecond)
	if err := stubborn.Stop(); err == nil || stubborn.Running() {
		t.Errorf("stop of a process that ignores it: %v, running %t", err, stubborn.Running())
	}
	// The default action of SIGTERM is no clean exit; that it is delivered to a
	// frozen process at all is the point here.
	frozen := start(t, "sleep", patience)
	must(t, frozen.Freeze())
	if err := frozen.Stop(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("stop of a frozen process: %v, want one ended by SIGTERM", err)
	}
}

func TestStartFailsWithTheLogWhenTheProcessEnds(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p := proc.New(proc.Spec{
		Name:  "server",
		Path:  "/bin/sh",
		Args:  []string{"-c", "echo out of luck >&2; exit 3"},
		Log:   log,
		Ready: func(context.Context) error { return errors.New("never") },
	})
	err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("error lacks status or log: %v", err)
	}
}

func TestKilledParentLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"=parent")
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	var pid int
	var dir string
	if _, err := fmt.Sscan(line, &pid, &dir); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	inUse, err := proc.TempDir("proc-test") // must not sweep what is in use
	must(t, err)
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the running parent's directory: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the child ends with its parent", func() bool {
		// Init may take a moment to reap it, so a zombie counts as ended.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	sweeper, err := proc.TempDir("proc-test")
	must(t, err)
	must(t, errors.Join(inUse.Close(), sweeper.Close()))
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestPortsAreDistinct(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		port, err := proc.FreePort()
		must(t, err)
		defer port.Release()
		if seen[port.Number] {
			t.Fatalf("port %d was given out twice", port.Number)
		}
		seen[port.Number] = true
	}
}
