package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// printOverview is the help about informd as a whole.
func printOverview(w io.Writer) {
	fmt.Fprint(w, "informd streams every change of the Kubernetes resources that its config lists to its sinks.\n\n"+
		"Usage:\n  informd [command] [flags]\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-12s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, `
'informd <command> --help' is about one of them. Without a command it is 'informd run'.

Every scalar of the config can be set by an environment variable, too: INFORMD_LOG_LEVEL for log.level.

Exit codes: 0 ok, 1 failure, 2 wrong usage or config.
`)
}

// printHelp is the help about one command.
func printHelp(w io.Writer, c command, flags *pflag.FlagSet) {
	usage := "informd " + c.name
	if len(c.verbs) > 0 {
		usage += " " + strings.Join(c.verbs, "|")
	}
	if flags.HasFlags() {
		usage += " [flags]"
	}
	fmt.Fprintf(w, "informd %s: %s.\n\nUsage:\n  %s\n", c.name, c.summary, usage)
	if c.long != "" {
		fmt.Fprintf(w, "\n%s\n", c.long)
	}
	fmt.Fprint(w, "\nExamples:\n")
	for line := range strings.Lines(c.examples) {
		fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
	if flags.HasFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", flags.FlagUsages())
	}
	fmt.Fprintf(w, "\nExit codes: %s.\n", c.exits)
}
