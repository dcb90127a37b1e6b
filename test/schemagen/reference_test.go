package schemagen_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

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

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// root is the top of the repository, from here.
const root = "../.."

var update = flag.Bool("update", false, "write the files in schema/")

// TestShipped holds the files in schema/, which the program has in it, to be what is
// made of the code.
func TestShipped(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	config, err := schemagen.Config(root, drivers.All())
	must(t, err)
	event, err := schemagen.Event()
	must(t, err)
	for name, made := range map[string][]byte{"config.schema.json": config, "event.schema.json": event} {
		path := filepath.Join(root, "schema", name)
		if *update {
			must(t, os.WriteFile(path, made, 0o600))
		}
		shipped, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v (make schema writes it)", err)
		}
		if diff := cmp.Diff(string(shipped), string(made)); diff != "" {
			t.Errorf("schema/%s is not what the code says (make schema writes it; -shipped +made):\n%s", name, diff)
		}
	}
	if !*update && (!bytes.Equal(schema.Config(), config) || !bytes.Equal(schema.Event(), event)) {
		t.Error("the schemas in the program are not those in schema/")
	}
}

// TestChart holds the values of the Helm chart to the schema of the config: the key config of
// values.schema.json is that schema. The config's schema has no key that draft-07 lacks.
func TestChart(t *testing.T) {
	path := filepath.Join(root, "deploy/helm/informd/values.schema.json")
	shipped, err := os.ReadFile(path)
	must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "schema/config.schema.json")) // TestShipped may have written it
	must(t, err)
	var values, config map[string]any
	must(t, errors.Join(json.Unmarshal(shipped, &values), json.Unmarshal(text, &config)))
	delete(config, "$schema")
	delete(config, "title")
	properties, ok := values["properties"].(map[string]any)
	if !ok {
		t.Fatalf("%s has no properties", path)
	}
	properties["config"] = config
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	must(t, encoder.Encode(values))
	if *update {
		must(t, os.WriteFile(path, made.Bytes(), 0o600))
		shipped = made.Bytes()
	}
	if diff := cmp.Diff(string(shipped), made.String()); diff != "" {
		t.Errorf("%s is not what the code says (make schema writes it; -shipped +made):\n%s", path, diff)
	}
}

// TestEveryKeyIsExplained holds the schema to say something about every key: what an
// editor shows is what the comments of the structs say.
func TestEveryKeyIsExplained(t *testing.T) {
	var whole map[string]any
	must(t, json.Unmarshal(schema.Config(), &whole))
	keys := 0
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case []any:
			for _, inner := range node {
				walk(path, inner)
			}
		case map[string]any:
			properties, _ := node["properties"].(map[string]any)
			for key, inner := range properties {
				about, isSchema := inner.(map[string]any)
				if text, _ := about["description"].(string); isSchema && about["const"] == nil && text == "" {
					t.Errorf("%s.%s has no description: its field has no comment", path, key)
				}
				keys++
				walk(path+"."+key, inner)
			}
			walk(path, node["allOf"])
			walk(path, node["then"])
			walk(path+"[]", node["items"])
		}
	}
	walk("", whole)
	if keys < 80 {
		t.Errorf("found %d keys only", keys)
	}
}

const chart = "deploy/helm/informd"

// TestValues holds the README of the Helm chart to its values. `make docs` writes it.
func TestValues(t *testing.T) {
	values := read(t, filepath.Join(root, chart, "values.yaml"))
	made, err := schemagen.ValuesPage(read(t, filepath.Join(root, chart, "values.schema.json")), values)
	must(t, err)
	path := filepath.Join(root, chart, "README.md")
	if *update {
		must(t, os.WriteFile(path, made, 0o600))
	}
	if diff := cmp.Diff(string(read(t, path)), string(made)); diff != "" {
		t.Errorf("%s is not generated from the values (make docs writes it; -page +made):\n%s", path, diff)
	}
	var top map[string]any
	must(t, yaml.Unmarshal(values, &top))
	for key := range top {
		if page := string(made); !strings.Contains(page, "| `"+key+"` |") && !strings.Contains(page, "| `"+key+".") {
			t.Errorf("the page has no row for %s", key)
		}
	}
}

// TestValuesRefuses: a value that nothing explains is an error.
func TestValuesRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ schema, values, want string }{
		"no JSON":        {"", "", "read the schema"},
		"no YAML":        {"{}", "a: [", "read the values"},
		"no description": {`{"properties": {"new": {"type": "string"}}}`, "", "new has no description"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := schemagen.ValuesPage([]byte(tt.schema), []byte(tt.values)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
