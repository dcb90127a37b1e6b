package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// window is the number of equal lines in a row that count as repeated.
const window = 6

// repeats holds every window of code lines, and where it is.
type repeats map[string][]place

// place is a window in a file: line is its first line, at the index of that line among the
// lines of code.
type place struct {
	file        string
	index, line int
}

// add reads a file. Blank lines, comments, imports and lone brackets do not count.
func (r repeats) add(file, src string) {
	var code []string
	var at []int
	imports := false
	for i, line := range strings.Split(src, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "import (":
			imports = true
		case imports:
			imports = line != ")"
		case strings.Trim(line, "(){}, ") == "", strings.HasPrefix(line, "//"):
		default:
			code, at = append(code, line), append(at, i+1)
		}
	}
	for i := 0; i+window <= len(code); i++ {
		text := strings.Join(code[i:i+window], "\n")
		r[text] = append(r[text], place{file, i, at[i]})
	}
}

// rows returns the repeated runs, windows that follow each other joined, with their lines
// of code.
func (r repeats) rows() []row {
	type pair struct{ a, b place }
	var pairs []pair
	for _, places := range r {
		for i, a := range places {
			for _, b := range places[i+1:] {
				if a.file != b.file || b.index-a.index >= window { // a run does not repeat itself
					pairs = append(pairs, pair{a, b})
				}
			}
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.a.file, y.a.file), cmp.Compare(x.b.file, y.b.file),
			cmp.Compare(x.b.index-x.a.index, y.b.index-y.a.index), cmp.Compare(x.a.index, y.a.index))
	})
	var rows []row
	for i := 0; i < len(pairs); {
		first, length := pairs[i], window
		for i++; i < len(pairs); i++ {
			last, next := pairs[i-1], pairs[i]
			if next.a.file != last.a.file || next.b.file != last.b.file || next.a.index != last.a.index+1 || next.b.index != last.b.index+1 {
				break
			}
			length++
		}
		rows = append(rows, row{fmt.Sprintf("%s:%d ~ %s:%d", first.a.file, first.a.line, first.b.file, first.b.line), length})
	}
	return rows
}
