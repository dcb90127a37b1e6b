package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNoCoreFile: the process has no core file, whatever limit it was started with.
func TestNoCoreFile(t *testing.T) {
	if os.Getenv("INFORMD_TEST_CORE") != "" {
		noCore()
		limits, err := os.ReadFile("/proc/self/limits")
		fmt.Fprintln(os.Stdout, string(limits), err)
		return
	}
	executable, err := os.Executable()
	must(t, err)
	command := exec.CommandContext(t.Context(), executable, "-test.run=^TestNoCoreFile$")
	command.Env = append(os.Environ(), "INFORMD_TEST_CORE=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if limit, ok := strings.CutPrefix(line, "Max core file size"); ok {
			if got := strings.Fields(limit); len(got) < 2 || got[0] != "0" || got[1] != "0" {
				t.Errorf("the limits are %q", got)
			}
			return
		}
	}
	t.Errorf("no limit of core files in %s", out)
}
