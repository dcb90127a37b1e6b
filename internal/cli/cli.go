// Package cli is the command line of informd: the commands, their flags and help, what they
// print, and their exit codes. Each subcommand is a file; those that show one object are in
// objects.go. Package informd of pkg, and tests,
// are its callers.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/sink"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Program is what differs between informd and programs that are built from it.
type Program struct {
	// Name is that of the program in its usage lines and errors. Help texts say informd.
	Name string
	// Version is what the version command prints.
	Version string
	// Drivers are the sink types that a config can name.
	Drivers []sink.Driver
}

// line is the version of the program and what it was built with.
func (p Program) line() string {
	return fmt.Sprintf("%s %s %s %s/%s", p.Name, p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Main runs the command line of the process and returns the exit code. It also prevents core
// files.
func Main(p Program) int {
	noCore()
	return execute(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, p})
}

// noCore prevents core files: they would hold the values of Secrets. A limit that cannot
// be set stays as it is.
func noCore() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// streams are the standard streams of a command, and the program that it is part of.
type streams struct {
	in       io.Reader
	out, err io.Writer
	program  Program
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
		fmt.Fprintf(std.err, "%s: %s\n", std.program.Name, display.Addresses(usage.Error()))
		if !usage.inFile {
			fmt.Fprintf(std.err, "Try '%s --help'.\n", command.CommandPath())
		}
		return exitUsage
	default:
		std.printFailure(err)
		return exitFailure
	}
}

// printFailure prints an error, and what several parts of informd failed with only once.
func (std streams) printFailure(err error) {
	lines := strings.Split(display.Addresses(err.Error()), "\n")
	for i, line := range lines {
		if !slices.Contains(lines[:i], line) {
			fmt.Fprintf(std.err, "%s: %s\n", std.program.Name, line)
		}
	}
}
