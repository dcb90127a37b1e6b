package exec_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/informd/informd/pkg/sink"
	sinkexec "github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestNoProcessIsLeft: neither of the program nor of what it has started, however it ends.
func TestNoProcessIsLeft(t *testing.T) {
	for name, script := range map[string]string{
		"end of input":      `sleep 1000 & echo $! >>$PIDS; exec cat >/dev/null`,
		"ignores the end":   `trap '' TERM HUP; sleep 1000 & echo $! >>$PIDS; while :; do sleep 0.1; done`,
		"ends by itself":    `sleep 1000 & echo $! >>$PIDS; exit 3`,
		"leaves the output": `sleep 1000 2>&1 & echo $! >>$PIDS; exec >&-; exec cat >/dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			list := filepath.Join(t.TempDir(), "pids")
			c := options(t, func(o *sinkexec.Config) {
				o.Processes, o.Timeout = 2, 300*time.Millisecond
				o.Env = map[string]sink.Secret{"PIDS": sink.NewSecret(list)}
			}, "sh", "-c", `echo $$ >>$PIDS; `+script)
			s := open(t, c, sinktest.Env(t))
			for range 3 {
				_, _ = write(t, s, sinktest.Events(2))
			}
			shut(t, s)
			text, err := os.ReadFile(list)
			sinktest.Must(t, err)
			if n := len(strings.Fields(string(text))); n < 6 {
				t.Errorf("%d processes only", n)
			}
			for pid := range strings.FieldsSeq(string(text)) {
				awaitGone(t, pid)
			}
		})
	}
}

// awaitGone waits until there is no process. One that nobody has reaped is gone, too.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); signal(t, pid, 0); <-tick.C {
		stat, _ := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if _, state, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(state, "Z") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s is still there: %s", pid, stat)
		}
	}
}

// TestInformdKilled: on Linux, the program ends with an informd that is killed, although it does
// not look at its input.
func TestInformdKilled(t *testing.T) {
	dir := t.TempDir()
	informd := exec.CommandContext(t.Context(), os.Args[0])
	informd.Env = append(os.Environ(), "EXEC_TEST_PROGRAM=informd", "EXEC_TEST_DIR="+dir)
	sinktest.Must(t, informd.Start())
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !present(filepath.Join(dir, pids)); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("no program was started")
		}
	}
	sinktest.Must(t, informd.Process.Signal(syscall.SIGKILL))
	_ = informd.Wait() // killed
	for _, pid := range started(t, dir) {
		awaitGone(t, pid)
	}
}

// runSink is an informd whose program hangs.
func runSink(dir string) int {
	c, _ := sinkexec.Driver().New().(*sinkexec.Config)
	c.Command = []string{"sh", "-c", "echo $$ >$PIDS.new; mv $PIDS.new $PIDS; exec sleep 1000"}
	c.Env = map[string]sink.Secret{"PIDS": sink.NewSecret(filepath.Join(dir, pids))}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.Open(ctx, sink.Env{Logger: discard()})
	if err == nil {
		_, err = s.Write(ctx, sinktest.Events(1))
	}
	if err != nil {
		return 1
	}
	return 0
}
