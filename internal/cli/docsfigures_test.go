package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docsFigures returns the medians of docs/figures.json by name.
func docsFigures(t *testing.T) map[string]float64 {
	t.Helper()
	var measurements []struct {
		Figures map[string]struct{ Median float64 }
	}
	must(t, json.Unmarshal([]byte(docsPage(t, "../../docs/figures.json")), &measurements))
	medians := make(map[string]float64)
	for _, m := range measurements {
		for name, figure := range m.Figures {
			medians[name] = figure.Median
		}
	}
	return medians
}

// docsFigure returns the figure that a comment names: that of the file, or the ratio of two.
func docsFigure(figures map[string]float64, name string) (float64, error) {
	above, below, isRatio := strings.Cut(name, "/")
	for _, part := range []string{above, below} {
		if _, ok := figures[part]; !ok && (part != "" || isRatio) {
			return 0, fmt.Errorf("docs/figures.json has no figure %q", part)
		}
	}
	if isRatio {
		return figures[above] / figures[below], nil
	}
	return figures[above], nil
}

// rounds reports whether a number in a page is the figure, rounded to the digits that the page shows. Zeros
// at the end of a whole number are no digits.
func rounds(shown string, figure float64) bool {
	shown = strings.ReplaceAll(shown, ",", "")
	value, err := strconv.ParseFloat(shown, 64)
	if err != nil {
		return false
	}
	var place float64 // of the last digit
	if _, decimals, ok := strings.Cut(shown, "."); ok {
		place = math.Pow(10, -float64(len(decimals)))
	} else {
		place = math.Pow(10, float64(len(shown)-len(strings.TrimRight(shown, "0"))))
	}
	return math.Abs(value-figure) <= place*0.5000001
}

// TestDocsFigures: the figures in the pages are those of docs/figures.json, which the comment behind each of
// them names. The README, and the tables of docs/performance.md, have no others.
func TestDocsFigures(t *testing.T) {
	figures := docsFigures(t)
	marked := regexp.MustCompile(`([0-9][0-9.,]*)?<!--([a-z0-9-]+\.[a-z0-9./-]+)-->`)
	pages := docsPages(t)
	checked := 0
	for name, page := range pages {
		for _, found := range marked.FindAllStringSubmatch(page, -1) {
			checked++
			figure, err := docsFigure(figures, found[2])
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if !rounds(found[1], figure) {
				t.Errorf("%s states %s; %s is %.4g", name, found[1], found[2], figure)
			}
		}
	}
	if checked < 50 {
		t.Errorf("found %d figures only", checked)
	}
	measured := regexp.MustCompile(`[0-9][0-9.,]* ?(?:us|ms|KiB|MiB|GiB|%|events/s|times)(?:[^a-z]|$)`)
	if found := measured.FindAllString(marked.ReplaceAllString(docsText(pages["README.md"]), ""), -1); found != nil {
		t.Errorf("README.md states figures without their names: %q", found)
	}
	for line := range strings.Lines(pages["docs/performance.md"]) {
		cells := strings.Split(marked.ReplaceAllString(line, ""), "|")
		if len(cells) < 4 {
			continue // no row
		}
		for _, cell := range cells[2:] {
			if strings.ContainsAny(strings.ReplaceAll(cell, "p50, p99", ""), "0123456789") {
				t.Errorf("docs/performance.md: a figure without its name in %s", line)
			}
		}
	}
}
