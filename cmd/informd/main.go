// Command informd streams every change of the Kubernetes resources that its
// config lists to its sinks. See README.md; each subcommand is a file here.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/config"
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

// noCore has the process leave no core file: it would hold the values of Secrets. A limit
// that cannot be set stays as it is.
func noCore() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// command is one subcommand. Its flags are those of the config and its own.
type command struct {
	name, summary string
	// long says in a few lines what it does, examples are command lines, one a line,
	// and exits is what its exit codes mean.
	long, examples, exits string
	// verbs are what its only argument may be; none means no argument.
	verbs []string
	flags func(*pflag.FlagSet)
	run   func(ctx context.Context, io streams, flags *pflag.FlagSet) error
}

type streams struct{ out, err io.Writer }

func commands() []command {
	return []command{
		runCommand(), validateCommand(), tryCommand(), planCommand(), rbacCommand(), statusCommand(), verifyCommand(), replayCommand(), resnapshotCommand(),
		deadLettersCommand(), schemaCommand(), versionCommand(),
	}
}

// usageError is a mistake on the command line.
type usageError struct {
	msg string
	// command is the one that was meant, empty if it is not known.
	command string
	// inFile is a mistake in a file, not on the command line: help would not help.
	inFile bool
}

func (e usageError) Error() string { return e.msg }

// misused is the mistake that a command finds in how it was called.
func misused(format string, args ...any) error {
	return usageError{msg: fmt.Sprintf(format, args...)}
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, streams{stdout, stderr})
	var problems config.Errors
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &problems):
		fmt.Fprintln(stderr, display.Addresses(problems.Error()))
		return exitUsage
	case errors.As(err, &usage) && usage.inFile:
		fmt.Fprintf(stderr, "informd: %s\n", usage)
		return exitUsage
	case errors.As(err, &usage):
		help := "informd --help"
		if usage.command != "" {
			help = "informd " + usage.command + " --help"
		}
		fmt.Fprintf(stderr, "informd: %s\nTry '%s'.\n", display.Addresses(usage.Error()), help)
		return exitUsage
	default:
		for line := range strings.SplitSeq(display.Addresses(err.Error()), "\n") {
			fmt.Fprintln(stderr, "informd:", line)
		}
		return exitFailure
	}
}

// dispatch finds out which command is meant, and runs it.
func dispatch(ctx context.Context, args []string, io streams) error {
	switch {
	case len(args) == 1 && args[0] == "--version":
		args = []string{versionCommandName}
	case len(args) == 2 && args[0] == "help":
		args = []string{args[1], "--help"}
	case len(args) == 1 && (args[0] == "help" || args[0] == "--help" || args[0] == "-h"):
		printOverview(io.out)
		return nil
	}
	name := runCommandName
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		err := c.call(ctx, args, io)
		if usage, ok := errors.AsType[usageError](err); ok {
			usage.command = c.name
			return usage
		}
		return err
	}
	if isConfigFile(name) {
		return misused("unknown command %q: did you mean --config %[1]s?", name)
	}
	return misused("unknown command %q", name)
}

// isConfigFile reports whether an argument looks like the name of a config.
func isConfigFile(arg string) bool {
	return strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml")
}

// call runs the command with its arguments.
func (c command) call(ctx context.Context, args []string, io streams) error {
	flags := pflag.NewFlagSet("informd "+c.name, pflag.ContinueOnError)
	flags.SetOutput(io.err)
	flags.Usage = func() {}
	if c.flags != nil {
		c.flags(flags)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		printHelp(io.out, c, flags)
		return nil
	case err != nil:
		return misused("%v", err)
	}
	switch {
	case len(c.verbs) == 0 && flags.NArg() > 0 && flags.Lookup("file") != nil && !flags.Changed("file"):
		return misused("unexpected argument %q: did you mean informd %s -f %[1]s?", flags.Arg(0), c.name)
	case len(c.verbs) == 0 && flags.NArg() > 0 && flags.Lookup("config") != nil && isConfigFile(flags.Arg(0)):
		return misused("unexpected argument %q: did you mean --config %[1]s?", flags.Arg(0))
	case len(c.verbs) == 0 && flags.NArg() > 0:
		return misused("unexpected argument %q", flags.Arg(0))
	case len(c.verbs) > 0 && (flags.NArg() != 1 || !slices.Contains(c.verbs, flags.Arg(0))):
		return misused("%s needs one of %s", c.name, strings.Join(c.verbs, ", "))
	}
	return c.run(ctx, io, flags)
}
