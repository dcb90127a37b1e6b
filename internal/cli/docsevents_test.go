package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/informd/informd/schema"
)

// TestDocsEvents checks that docs/events.md has every attribute and operation of the JSON Schema of
// events.
func TestDocsEvents(t *testing.T) {
	page := docsPage(t, "../../docs/events.md")
	var s struct {
		Properties map[string]struct{ Enum []string }
	}
	if err := json.Unmarshal(schema.Event(), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Properties) < 20 || len(s.Properties["op"].Enum) < 10 {
		t.Fatalf("the schema has %d attributes, %d operations", len(s.Properties), len(s.Properties["op"].Enum))
	}
	for attribute, property := range s.Properties {
		for _, name := range append(property.Enum, attribute) {
			if attribute != "type" && !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/events.md does not have %s", name)
			}
		}
	}
}

// TestDocsMetrics checks that docs/metrics-and-alerts.md has each metric that a page names.
func TestDocsMetrics(t *testing.T) {
	pages := docsPages(t)
	reference := pages["docs/metrics-and-alerts.md"]
	checked := 0
	for name, page := range pages {
		if name == "CHANGELOG.md" {
			continue // it also has former names
		}
		for _, metric := range regexp.MustCompile(`\binformd_[a-z_]+`).FindAllString(page, -1) {
			checked++
			if !strings.Contains(reference, "`"+metric+"`") && !strings.Contains(reference, "`"+metric+"{") {
				t.Errorf("%s: docs/metrics-and-alerts.md does not have %s", name, metric)
			}
		}
	}
	if checked < 50 {
		t.Errorf("found %d metrics only", checked)
	}
}
