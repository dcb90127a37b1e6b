package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is printed in Markdown, in columns that line up.
type table struct {
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(to io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range t.rows {
		for i, cell := range row {
			fmt.Fprintf(to, "| %-*s ", widths[i], cell)
		}
		fmt.Fprintln(to, "|")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprint(to, "|"+strings.Repeat("-", width+2))
			}
			fmt.Fprintln(to, "|")
		}
	}
}
