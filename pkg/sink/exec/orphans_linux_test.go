package exec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	sinkexec "github.com/informd/informd/pkg/sink/exec"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestOrphansAreReaped: as the first process of a container, informd inherits what programs leave behind. It must not
// keep their entries in the table of processes.
func TestOrphansAreReaped(t *testing.T) {
	sinktest.Must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer func() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	}()
	c := options(t, func(c *sinkexec.Config) { c.Ack = sinkexec.Exit }, "sh", "-c", "cat >/dev/null; sh -c 'sleep 1000; true' & sleep 1000 &")
	s := open(t, c, sinktest.Env(t))
	for range 5 {
		sinktest.Deliver(t, s, sinktest.Events(1))
	}
	shut(t, s)
	if left := zombies(t); len(left) > 0 {
		t.Errorf("processes that nobody has waited for: %q", left)
	}
}

// zombies are the children of this process that have ended.
func zombies(t *testing.T) (left []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	sinktest.Must(t, err)
	for _, path := range all {
		stat, _ := os.ReadFile(path) // it may have gone
		if strings.Contains(string(stat), fmt.Sprintf(") Z %d ", os.Getpid())) {
			left = append(left, string(stat[:min(len(stat), 40)]))
		}
	}
	return left
}
