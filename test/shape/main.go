// Command shape measures how the product's Go code is laid out: packages, files, structs,
// functions and repeated lines. Tests, examples and generated files do not count. `make shape`
// calls it. With -check it fails if a measure exceeds its limit.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

// The limits of the layout. A file or a struct beyond them is hard to read as a whole.
const (
	maxPackageLines = 3000
	maxPackageFiles = 20
	maxMethods      = 60
	maxFields       = 12
	maxFuncLines    = 60
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code: 0 for measures within the limits or without -check, 1 for a
// measure beyond its limit, 2 for wrong usage or code that cannot be read.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("shape", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", "..", "the directory to measure")
	check := flags.Bool("check", false, "fail if a measure exceeds its limit")
	rows := flags.Int("rows", 10, "rows per measure")
	if flags.Parse(args) != nil {
		return 2
	}
	house, err := measure(*root)
	if err != nil {
		fmt.Fprintln(stderr, "shape:", err)
		return 2
	}
	fmt.Fprintf(stdout, "product code: %d lines, %d of them comments, in %d files and %d packages\n",
		house.lines, house.comments, house.files, len(house.packages))
	beyond := show(stdout, *rows, "lines per package", maxPackageLines, house.rank(func(p *pack) int { return p.lines }))
	beyond += show(stdout, *rows, "files per package", maxPackageFiles, house.rank(func(p *pack) int { return p.files }))
	beyond += show(stdout, *rows, "methods per type", maxMethods, house.methods)
	beyond += show(stdout, *rows, "fields per struct", maxFields, house.fields)
	beyond += show(stdout, *rows, "lines per function", maxFuncLines, house.funcs)
	show(stdout, *rows, fmt.Sprintf("repeated runs of at least %d lines", window), 0, house.repeats)
	if *check && beyond > 0 {
		fmt.Fprintf(stderr, "shape: %d measures exceed their limit\n", beyond)
		return 1
	}
	return 0
}

// row is one measured thing.
type row struct {
	name  string
	value int
}

// show writes the largest rows and returns how many exceed the limit; 0 means no limit.
func show(w io.Writer, most int, title string, limit int, rows []row) (beyond int) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.name, b.name))
	})
	for _, r := range rows {
		if limit > 0 && r.value > limit {
			beyond++
		}
	}
	if limit > 0 {
		fmt.Fprintf(w, "\n%s (limit %d): %d of %d exceed it\n", title, limit, beyond, len(rows))
	} else {
		fmt.Fprintf(w, "\n%s: %d\n", title, len(rows))
	}
	for _, r := range rows[:min(most, len(rows))] {
		fmt.Fprintf(w, "%7d  %s\n", r.value, r.name)
	}
	return beyond
}
