package frame_test

import (
	"os"
	"regexp"
	"slices"
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
	if err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			shape := frame.NewShape(frame.ShapeOptions{Rules: rules}, frame.NewRedactor([]byte(docsKey)))
			o, err := frame.NewNormaliser("example.com/v1", "Sensor", frame.Options{Shape: func() *frame.Shape { return shape }}).Normalise([]byte(object))
			if err != nil {
				t.Fatal(err)
			}
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

// TestDocsGates: what docs/filtering.md shows of change gates is what they do.
func TestDocsGates(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/filtering.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```yaml\n([^`]*?)```\n[^`]*```jsonl\n(.*?)```").FindStringSubmatch(string(text))
	if shown == nil {
		t.Fatal("no example")
	}
	var c struct {
		Resources []struct {
			EmitWhen struct {
				Changed []string `yaml:"changed"`
				Noop    bool     `yaml:"noop"`
			} `yaml:"emitWhen"`
		}
		Sinks []struct {
			Name  string
			Match []struct {
				Changed []string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(shown[1]), &c); err != nil || len(c.Resources) != 1 || c.Resources[0].EmitWhen.Noop {
		t.Fatalf("%v in:\n%s", err, shown[1])
	}
	var asked []fieldpath.Gate
	for _, s := range c.Sinks {
		for _, m := range s.Match {
			asked = append(asked, gatesOf(t, m.Changed...)...)
		}
	}
	gates := frame.NewGates(gatesOf(t, c.Resources[0].EmitWhen.Changed...), asked, true)
	var last []uint64
	for line := range strings.Lines(shown[2]) {
		state, want, _ := strings.Cut(strings.TrimSpace(line), " // ")
		o := normalised(t, gatedBy(t, rules{}, gates), []byte(state))
		got := "no event"
		if gates.Open(o.Hashes, last) {
			unchanged := gates.Unchanged(o.Hashes, last)
			var names []string
			for _, s := range c.Sinks {
				changed := func(g fieldpath.Gate) bool { return !slices.Contains(unchanged, g.ID()) }
				if len(s.Match) == 0 || slices.ContainsFunc(gatesOf(t, s.Match[0].Changed...), changed) {
					names = append(names, s.Name)
				}
			}
			got = "modified: " + strings.Join(names, ", ")
			if last == nil {
				got = strings.Replace(got, "modified", "added", 1)
			}
			last = o.Hashes
		}
		if got != want {
			t.Errorf("%s\nis shown as %s, and is %s", state, want, got)
		}
	}
}
