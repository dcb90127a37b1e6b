package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
)

// TestColumnsOfThePage: the tables of the page name what they show as the commands do, so that people who
// compare them need no dictionary.
func TestColumnsOfThePage(t *testing.T) {
	text, err := os.ReadFile("../page/assets/index.html")
	if err != nil {
		t.Fatal(err)
	}
	var gaps strings.Builder
	if err := printGaps(&gaps, []event.Event{{Op: event.Gap, Gap: &event.GapInfo{}}}); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(gaps.String(), "\n")
	for table, tt := range map[string]struct {
		columns []string
		// absent are columns that only the command has.
		absent []string
	}{
		"sinks":   {sinkRows(nil, nil, time.Time{})[0], []string{"DEAD LETTERS"}},
		"targets": {targetRows(nil, time.Time{})[0], []string{"VERSION", "MODE"}},
		"gaps":    {strings.Fields(first), nil},
	} {
		head := regexp.MustCompile(`<thead>(.*)</thead>\s*<tbody id="` + table + `">`).FindSubmatch(text)
		if head == nil {
			t.Errorf("the page has no table %s", table)
			continue
		}
		var names []string
		for _, cell := range regexp.MustCompile(`<th[^>]*>([^<]*)</th>`).FindAllSubmatch(head[1], -1) {
			names = append(names, strings.ToUpper(string(cell[1])))
		}
		for _, column := range tt.columns {
			if slices.Contains(names, column) == slices.Contains(tt.absent, column) {
				t.Errorf("the table %s of the page has the columns %q; the command has %s", table, names, column)
			}
		}
	}
}
