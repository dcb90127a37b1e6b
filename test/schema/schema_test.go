// Package schema_test holds the shipped JSON Schemas to what informd reads and
// writes, with a validator that is not informd's own.
package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// root is the top of the repository, from here.
const root = "../.."

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// compiled is a schema, ready to use. Compiling checks it against its own dialect.
func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource("schema.json", document))
	s, err := c.Compile("schema.json")
	must(t, err)
	return s
}

// fromYAML is what a validator takes for a YAML text.
func fromYAML(t *testing.T, text []byte) any {
	t.Helper()
	var decoded any
	if err := yaml.Unmarshal(text, &decoded); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	inJSON, err := json.Marshal(decoded)
	must(t, err)
	return fromJSON(t, inJSON)
}

func fromJSON(t *testing.T, text []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return value
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	must(t, err)
	return text
}

// glob returns the files that match, at least as many as there must be.
func glob(t *testing.T, pattern string, atLeast int) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil || len(paths) < atLeast {
		t.Fatalf("%s matches %d files (%v), want at least %d", pattern, len(paths), err, atLeast)
	}
	for i := range paths {
		paths[i] = filepath.ToSlash(strings.TrimPrefix(paths[i], root+string(filepath.Separator)))
	}
	return paths
}
