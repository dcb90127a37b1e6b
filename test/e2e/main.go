// Package e2e is what the end-to-end tests have in common. They run the real informd, as a
// process, against a real control plane and real servers of its sinks, and hold what comes
// out against what was written. The directory of a test says when it runs: core with
// `make test`, and with `make test-long` measured, alone on the machine, and watching and
// delivery, side by side.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

//nolint:gochecknoglobals // built once for all tests of a package by Main
var informdBinary string

// Main builds informd, runs the tests of a package below this one, and returns the exit
// code. It is 1 as well if a goroutine is left.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "informd-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temp dir
	informdBinary = filepath.Join(dir, "informd")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", informdBinary, "./cmd/informd")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build informd: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// repository is the root of the repository, from the directory of a tier.
const repository = "../../.."

// Binary is the path of the informd under test.
func Binary() string { return informdBinary }
