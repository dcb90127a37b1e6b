package emit

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/informd/informd/pkg/fieldpath"
)

// TestDocsFilters: what docs/filtering.md shows of change filters is what they do.
func TestDocsFilters(t *testing.T) {
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
	var sinks []fieldpath.ChangeFilter
	for _, s := range c.Sinks {
		for _, m := range s.Match {
			sinks = append(sinks, changeFilters(t, m.Changed...)...)
		}
	}
	filters := NewFilters(changeFilters(t, c.Resources[0].EmitWhen.Changed...), sinks, true)
	var last []byte
	for line := range strings.Lines(shown[2]) {
		state, want, _ := strings.Cut(strings.TrimSpace(line), " // ")
		got := "no event"
		if held, unchanged := filters.compare(last, []byte(state)); !held {
			var names []string
			for _, s := range c.Sinks {
				changed := func(f fieldpath.ChangeFilter) bool { return !slices.Contains(unchanged, f.ID()) }
				if len(s.Match) == 0 || slices.ContainsFunc(changeFilters(t, s.Match[0].Changed...), changed) {
					names = append(names, s.Name)
				}
			}
			got = "modified: " + strings.Join(names, ", ")
			if last == nil {
				got = strings.Replace(got, "modified", "added", 1)
			}
			last = []byte(state)
		}
		if got != want {
			t.Errorf("%s\nis shown as %s, and is %s", state, want, got)
		}
	}
}
