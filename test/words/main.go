// Command words checks the texts that people read against words.yaml: Markdown, the texts in Go
// string literals (log messages, errors, help, metric help) and the doc comments of
// exported names. It reports the place of each word to avoid, each clause with a
// question word as its subject, and each Markdown sentence that is too long. `make lint`
// calls it; style beyond single sentences is not its job.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code: 0 if nothing is wrong, 1 for findings, 2 for wrong usage.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("words", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", "..", "the directory to check")
	list := flags.String("list", "words/words.yaml", "the file with the words to avoid")
	all := flags.Bool("all", false, "report the findings in pending files, too")
	if flags.Parse(args) != nil {
		return 2
	}
	rules, err := loadRules(*list)
	if err != nil {
		fmt.Fprintln(stderr, "words:", err)
		return 2
	}
	found, err := check(*root, rules)
	if err != nil {
		fmt.Fprintln(stderr, "words:", err)
		return 2
	}
	if !*all {
		for _, entry := range rules.stale(found) {
			fmt.Fprintf(stderr, "words: %s is clean: remove it from pending in %s\n", entry, *list)
		}
		found = slices.DeleteFunc(found, rules.isPending)
	}
	for _, f := range found {
		fmt.Fprintln(stdout, f)
	}
	if len(found) > 0 {
		fmt.Fprintf(stderr, "words: %d findings (the standard is in %s)\n", len(found), *list)
		return 1
	}
	return 0
}
