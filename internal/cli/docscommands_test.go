package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// TestDocsCommands checks that each informd command in the pages exists and has its flags.
func TestDocsCommands(t *testing.T) {
	checked := 0
	for name, page := range docsPages(t) {
		if name == "CHANGELOG.md" || strings.HasPrefix(name, "docs/internals/") {
			continue
		}
		for _, args := range docsCommands(page) {
			checked++
			if problem := docsCommandProblem(args); problem != "" {
				t.Errorf("%s: informd %s: %s", name, strings.Join(args, " "), problem)
			}
		}
	}
	if checked < 60 {
		t.Errorf("found %d commands only", checked)
	}
}

// docsCommands returns the arguments of each call of informd in the shell blocks of a page and in its
// inline code.
func docsCommands(page string) [][]string {
	var lines []string
	for _, block := range docsBlocks(page) {
		if isShell(block.language) || block.language == "" {
			lines = append(lines, regexp.MustCompile(`[\n|;]|&&`).Split(block.text, -1)...)
		}
	}
	for _, code := range regexp.MustCompile("`((?:bin/)?informd [^`\n]+)`").FindAllStringSubmatch(docsText(page), -1) {
		lines = append(lines, code[1])
	}
	var calls [][]string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " #")
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if strings.HasPrefix(line, "kubectl ") {
			_, line, _ = strings.Cut(line, " -- ")
		}
		words := strings.Fields(line)
		if len(words) > 1 && (words[0] == "informd" || words[0] == "bin/informd") && regexp.MustCompile(`^[a-z-]+$`).MatchString(words[1]) {
			calls = append(calls, words[1:])
		}
	}
	return calls
}

// docsCommandProblem returns why a call of informd is wrong, and an empty string if it is right.
func docsCommandProblem(args []string) string {
	command, rest, err := newRoot(streams{program: standard()}).Find(args)
	if err != nil {
		return err.Error()
	}
	for _, arg := range rest {
		long, isLong := strings.CutPrefix(arg, "--")
		long, _, _ = strings.Cut(long, "=")
		switch {
		case isLong && command.Flag(long) == nil:
			return "it has no flag --" + long
		case !isLong && len(arg) == 2 && arg[0] == '-' && command.Flags().ShorthandLookup(arg[1:]) == nil:
			return "it has no flag " + arg
		case command.HasSubCommands() && arg[0] != '-':
			return "it has no command " + arg
		}
	}
	return ""
}

// isShell reports whether a block has commands. TestDocsRun runs those of "sh", and TestDocsCommands of test/deploy
// those of deploy/README.md and of "sh cluster". Nothing runs an illustration.
func isShell(language string) bool {
	return language == "sh" || language == "sh cluster" || language == "sh illustration"
}

// TestCLIPage holds docs/cli.md to the commands. `make cli-docs` writes it.
func TestCLIPage(t *testing.T) {
	golden(t, filepath.Join("..", "..", "docs", "cli.md"), cliPage())
}

// TestManPages writes the man pages to $INFORMD_MAN_DIR (`make man`), else to a temporary
// directory: there is a page for each command, and it states the exit codes.
func TestManPages(t *testing.T) {
	dir := os.Getenv("INFORMD_MAN_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	must(t, os.MkdirAll(dir, 0o750))
	root := newRoot(streams{program: standard()})
	eachCommand(root, func(c *cobra.Command) { c.DisableAutoGenTag = true })
	date := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // the pages of two builds are the same
	must(t, doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "informd", Manual: "informd", Date: &date}, dir))
	eachCommand(root, func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.Contains(string(page), "Exit codes: 0") {
			t.Errorf("%s: %v\n%s", c.CommandPath(), err, page)
		}
	})
}

// TestEveryCommandHasHelp: each command has a summary, a text, examples that call it, and
// exit codes.
func TestEveryCommandHasHelp(t *testing.T) {
	eachCommand(newRoot(streams{program: standard()}), func(c *cobra.Command) {
		switch {
		case c.Short == "", c.Long == "", c.Annotations[exitsKey] == "":
			t.Errorf("%s lacks a part of its help", c.CommandPath())
		case !strings.Contains(c.Example, strings.TrimSuffix(c.CommandPath(), " help")):
			t.Errorf("the examples of %s do not call it", c.CommandPath())
		case strings.HasSuffix(c.Short, ".") || len(c.Short) > 90:
			t.Errorf("%s: summary %q", c.CommandPath(), c.Short)
		}
	})
}

// eachCommand calls do with the command and all below that a user sees.
func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			eachCommand(sub, do)
		}
	}
}

// cliPage makes docs/cli.md.
func cliPage() string {
	var b strings.Builder
	b.WriteString("<!-- Generated from the commands by `make cli-docs`. -->\n# Command line\n")
	eachCommand(newRoot(streams{program: standard()}), func(c *cobra.Command) {
		if c.HasParent() {
			fmt.Fprintf(&b, "\n## %s\n", c.CommandPath())
		}
		c.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "\n```text\n%s\n\n%s```\n", c.Long, c.UsageString())
	})
	return b.String()
}
