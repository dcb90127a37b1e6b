package schemagen_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
	"github.com/informd/informd/schema"
	"github.com/informd/informd/test/schemagen"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

func reference(t *testing.T) schemagen.Reference {
	t.Helper()
	return schemagen.Reference{
		Schema:  schema.Config(),
		Starter: read(t, filepath.Join(root, "config.example.yaml")),
		Example: read(t, "reference.yaml"),
	}
}

// TestReference holds docs/configuration.md to the schema and the examples. `make docs`
// writes it.
func TestReference(t *testing.T) {
	made, err := reference(t).Page()
	must(t, err)
	path := filepath.Join(root, "docs", "configuration.md")
	if *update {
		must(t, os.WriteFile(path, made, 0o600))
	}
	if diff := cmp.Diff(string(read(t, path)), string(made)); diff != "" {
		t.Errorf("docs/configuration.md is not generated from the code (make docs writes it; -page +made):\n%s", diff)
	}
}

// TestReferenceExamplesDecode: each example on the page is valid, with a resource and a
// sink if it has none.
func TestReferenceExamplesDecode(t *testing.T) {
	for _, name := range []string{"HOOK_TOKEN", "NATS_TOKEN", "NATS_PASSWORD", "KAFKA_PASSWORD", "KAFKA_TOKEN", "HOOK_PASSWORD", "HANDLER_TOKEN", "TENANT"} {
		t.Setenv(name, "0123456789abcdef")
	}
	page, err := reference(t).Page()
	must(t, err)
	examples := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(page), -1)
	for _, example := range examples {
		text := example[1]
		for key, entry := range map[string]string{
			"cluster": "test", "resources": "[{resource: pods}, {group: apps, resource: deployments}]", "sinks": "[{name: out, type: stdout}]",
		} {
			if !regexp.MustCompile(`(?m)^` + key + `:`).MatchString(text) {
				text += key + ": " + entry + "\n"
			}
		}
		if _, err := configfile.Parse("docs/configuration.md", []byte(text), drivers.All()); err != nil {
			t.Errorf("%v in:\n%s", err, text)
		}
	}
	if len(examples) < 13 {
		t.Errorf("the page has %d examples, want 13 or more", len(examples))
	}
}

// TestReferenceHasEveryKey: each key of the tables is in an example of its section.
func TestReferenceHasEveryKey(t *testing.T) {
	page, err := reference(t).Page()
	must(t, err)
	sections := strings.Split(string(page), "\n### ")[1:]
	examples := map[string]string{}
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		title, _, _ = strings.Cut(title, ": advanced")
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(body, -1) {
			examples[title] += block[1]
		}
	}
	keys := 0
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		title, _, _ = strings.Cut(title, ": advanced")
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\S+)` \\|").FindAllStringSubmatch(body, -1) {
			keys++
			leaf := row[1][strings.LastIndex(row[1], ".")+1:]
			if !regexp.MustCompile(`(?m)^([^#]*[ {])?` + leaf + `:`).MatchString(examples[title]) {
				t.Errorf("no example of %s has %s", title, row[1])
			}
		}
	}
	if keys < 90 {
		t.Errorf("the page has %d keys, want 90 or more", keys)
	}
}

// TestReferenceRefuses: a schema or an example without a part of the page is an error.
func TestReferenceRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*schemagen.Reference)
		want   string
	}{
		"no JSON":              {func(r *schemagen.Reference) { r.Schema = nil }, "read the schema"},
		"a key no section has": {func(r *schemagen.Reference) { r.Schema = []byte(`{"properties": {"new": {}}}`) }, "the schema has [new]"},
		"no example":           {func(r *schemagen.Reference) { r.Example = []byte("log: {}\n") }, "the example has no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			r := reference(t)
			tt.change(&r)
			if _, err := r.Page(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
