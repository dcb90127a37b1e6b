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

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/config"
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
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// command is one subcommand. Its flags are those of the config and its own.
type command struct {
	name, summary string
	// verbs are what its only argument may be; none means no argument.
	verbs []string
	flags func(*pflag.FlagSet)
	run   func(ctx context.Context, io streams, flags *pflag.FlagSet) error
}

type streams struct{ out, err io.Writer }

func commands() []command {
	return []command{
		runCommand(), validateCommand(), rbacCommand(), statusCommand(), verifyCommand(), replayCommand(), deadLettersCommand(), versionCommand(),
	}
}

// usageError is a mistake on the command line.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := dispatch(ctx, args, streams{stdout, stderr})
	var problems config.Errors
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &problems):
		fmt.Fprintln(stderr, problems)
		return exitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "informd: %s\nTry 'informd --help'.\n", usage)
		return exitUsage
	default:
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintln(stderr, "informd:", line)
		}
		return exitFailure
	}
}

func dispatch(ctx context.Context, args []string, io streams) error {
	name := runCommandName
	if len(args) == 1 && args[0] == "--version" {
		args = []string{"version"}
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
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
			return usageError{err.Error()}
		}
		if err := checkArguments(c, flags); err != nil {
			return err
		}
		return c.run(ctx, io, flags)
	}
	if name == "help" {
		return dispatch(ctx, []string{"--help"}, io)
	}
	return usageError{fmt.Sprintf("unknown command %q", name)}
}

func checkArguments(c command, flags *pflag.FlagSet) error {
	switch {
	case len(c.verbs) == 0 && flags.NArg() > 0:
		return usageError{fmt.Sprintf("unexpected argument %q", flags.Arg(0))}
	case len(c.verbs) > 0 && (flags.NArg() != 1 || !slices.Contains(c.verbs, flags.Arg(0))):
		return usageError{fmt.Sprintf("%s needs one of %s", c.name, strings.Join(c.verbs, ", "))}
	}
	return nil
}

func printHelp(w io.Writer, c command, flags *pflag.FlagSet) {
	fmt.Fprint(w, "informd streams every change of the Kubernetes resources that its config lists to its sinks.\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
	}
	if flags.HasFlags() {
		fmt.Fprintf(w, "\nFlags of informd %s:\n%s", c.name, flags.FlagUsages())
	}
	fmt.Fprint(w, "\nEvery scalar of the config can be set by an environment variable, too: INFORMD_LOG_LEVEL for log.level.\n")
}
