package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

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
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	root := newRoot(streams{program: standard()})
	eachCommand(root, func(c *cobra.Command) { c.DisableAutoGenTag = true })
	date := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // the pages of two builds are the same
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "informd", Manual: "informd", Date: &date}, dir); err != nil {
		t.Fatal(err)
	}
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
