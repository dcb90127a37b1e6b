package frame_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/fieldpath"
)

// docsKey is the redaction key of the examples in the docs.
const docsKey = "an example's key, known to everybody"

// TestDocsExamples: what docs/shaping.md shows of an entry's keys is what they do. Each
// example is an entry and, in the next block, what becomes of the object.
func TestDocsExamples(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/shaping.md")
	must(t, err)
	var object, entry string
	shown := make(map[string]bool)
	for _, block := range regexp.MustCompile("(?s)```(json object|json|yaml)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		switch block[1] {
		case "json object":
			object = block[2]
		case "yaml":
			entry = block[2]
		case "json":
			var c struct {
				Resources []map[string]any
			}
			if err := yaml.Unmarshal([]byte(entry), &c); err != nil || len(c.Resources) != 1 {
				t.Fatalf("%v in:\n%s", err, entry)
			}
			list := func(key string) (items []string) {
				all, _ := c.Resources[0][key].([]any)
				for _, one := range all {
					item, _ := one.(string)
					items = append(items, item)
				}
				shown[key] = shown[key] || len(items) > 0
				return items
			}
			rules, err := fieldpath.ParseRules(list("keep"), list("omit"), list("redact"), false)
			must(t, err)
			shape := frame.NewShape(frame.ShapeOptions{Rules: rules}, frame.NewRedactor([]byte(docsKey)))
			o, err := frame.NewNormaliser("example.com/v1", "Sensor", frame.Options{Shape: func() *frame.Shape { return shape }}).Normalise([]byte(object))
			must(t, err)
			if got := string(closed(t, &o)); got != strings.TrimSpace(block[2]) {
				t.Errorf("the docs show\n%s\nfor\n%s\nbut it is\n%s", block[2], entry, got)
			}
		}
	}
	for _, key := range []string{"keep", "omit", "redact"} {
		if !shown[key] {
			t.Errorf("no example of %s", key)
		}
	}
}
