// Command informd streams every change of the Kubernetes resources that its
// config lists to its sinks. See README.md; each subcommand is a file here.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// version is set by the linker.
var version = "unknown"

func main() {
	noCore()
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// noCore prevents core files: they would hold the values of Secrets. A limit that cannot
// be set stays as it is.
func noCore() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// usageError is a mistake on the command line.
type usageError struct {
	msg string
	// inFile: the mistake is in a file, so that the help of the command does not help.
	inFile bool
}

func (e usageError) Error() string { return e.msg }

// misused returns the error of a command that was called in a wrong way.
func misused(format string, args ...any) error {
	return usageError{msg: fmt.Sprintf(format, args...)}
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return execute(ctx, args, streams{os.Stdin, stdout, stderr})
}

// execute runs the command that the arguments name, prints its error and returns the
// exit code.
func execute(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(append([]string{}, args...)) // not nil, for which cobra takes os.Args
	command, err := root.ExecuteContextC(ctx)
	var problems config.Errors
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &problems):
		fmt.Fprintln(std.err, display.Addresses(problems.Error()))
		return exitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(std.err, "informd: %s\n", display.Addresses(usage.Error()))
		if !usage.inFile {
			fmt.Fprintf(std.err, "Try '%s --help'.\n", command.CommandPath())
		}
		return exitUsage
	default:
		for line := range strings.SplitSeq(display.Addresses(err.Error()), "\n") {
			fmt.Fprintln(std.err, "informd:", line)
		}
		return exitFailure
	}
}
