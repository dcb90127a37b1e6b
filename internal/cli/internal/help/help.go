// Package help renders the help of a command.
package help

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exits is the annotation of a command with the meaning of its exit codes.
const Exits = "exits"

// Text returns the help of a command.
func Text(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", cmd.Long, usageLine(cmd))
	if cmd.HasAvailableSubCommands() {
		writeCommands(&b, cmd)
	}
	if cmd.Example != "" {
		b.WriteString("\nExamples:\n")
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	if flags := cmd.LocalFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags.FlagUsages())
	}
	if text := cmd.Annotations[Exits]; text != "" {
		fmt.Fprintf(&b, "\nExit codes: %s.\n", text)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n'%s <command> --help' shows the help of a command.\n", cmd.CommandPath())
	}
	return b.String()
}

// usageLine returns how to call a command.
func usageLine(cmd *cobra.Command) string {
	line := cmd.UseLine()
	if cmd.HasAvailableLocalFlags() && !cmd.DisableFlagsInUseLine && !strings.Contains(line, "[flags]") {
		line += " [flags]"
	}
	return line
}

// writeCommands lists the subcommands, by group if they have groups.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	list := func(title, group string) {
		fmt.Fprintf(b, "\n%s:\n", title)
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && c.GroupID == group {
				fmt.Fprintf(b, "  %-*s %s\n", max(cmd.NamePadding(), 11), c.Name(), c.Short)
			}
		}
	}
	if len(cmd.Groups()) == 0 {
		list("Commands", "")
	}
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
	}
}
