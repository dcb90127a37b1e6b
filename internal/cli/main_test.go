package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/sink/drivers"
)

// standard is informd itself.
func standard() Program { return Program{Name: "informd", Version: "unknown", Drivers: drivers.All()} }

// run runs a command of informd, with the standard input of the test.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return execute(ctx, args, streams{os.Stdin, stdout, stderr, standard()})
}

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// ends runs a command, which must end with a code, and returns what it wrote.
func ends(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), args, &out, &errs); got != code {
		t.Fatalf("informd %q: exit code %d, want %d\n%s%s", args, got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

// TestMain lets the scripts run informd as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"informd": func() { os.Exit(Main(standard())) }})
}

// leakChecked fails if goroutines are left when all tests have passed.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestFailureOfSeveralParts: the error that ended several parts of informd is shown once.
func TestFailureOfSeveralParts(t *testing.T) {
	var shown strings.Builder
	gone, other := errors.New("the directory is gone"), errors.New("the sink hangs")
	streams{err: &shown, program: standard()}.printFailure(errors.Join(gone, other, gone))
	if want := "informd: the directory is gone\ninformd: the sink hangs\n"; shown.String() != want {
		t.Errorf("shown:\n%swant:\n%s", shown.String(), want)
	}
}
