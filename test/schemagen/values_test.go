package schemagen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/test/schemagen"
)

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
