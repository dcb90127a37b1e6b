package schema_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/informd/informd/schema"
)

// TestConfigs: what the repository shows as a config is one by the schema.
func TestConfigs(t *testing.T) {
	s := compiled(t, schema.Config())
	found := 0
	check := func(where string, text []byte, whole bool) {
		t.Helper()
		config := fromYAML(t, text)
		mapping, ok := config.(map[string]any)
		if !ok || mapping["kind"] != nil {
			return // a manifest
		}
		if values, ok := mapping["config"].(map[string]any); ok { // values of the Helm chart
			config, mapping = values, values
		}
		if !whole {
			completed(mapping)
		}
		found++
		if err := s.Validate(config); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	files := slices.Concat([]string{"config.example.yaml"}, glob(t, "deploy/kustomize/base/config.yaml", 1), glob(t, "deploy/kustomize/overlays/*/config.yaml", 2))
	for _, file := range files {
		check(file, read(t, file), true)
	}
	for _, page := range slices.Concat([]string{"README.md"}, glob(t, "docs/*.md", 10), glob(t, "docs/sinks/*.md", 5), glob(t, "deploy/*.md", 1)) {
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(read(t, page), -1) {
			check(page+":\n"+string(block[1]), block[1], false)
		}
	}
	if found < 7 {
		t.Errorf("found %d configs only", found)
	}
}

// completed gives part of a config what it must have.
func completed(part map[string]any) {
	for key, entry := range map[string]map[string]any{"resources": {"resource": "pods"}, "sinks": {"name": "out", "type": "stdout"}} {
		if _, there := part[key]; !there {
			part[key] = []any{entry}
		}
	}
}

// TestExampleNamesTheSchema: the example's first line is what an editor follows.
func TestExampleNamesTheSchema(t *testing.T) {
	first, _, _ := strings.Cut(string(read(t, "config.example.yaml")), "\n")
	path, ok := strings.CutPrefix(first, "# yaml-language-server: $schema=")
	if !ok {
		t.Fatalf("the first line is %q", first)
	}
	if string(read(t, path)) != string(schema.Config()) {
		t.Errorf("%s is not the schema of the config", path)
	}
}

// aboutForm are the messages about mistakes that a schema can see: an unknown key, a
// wrong type, a value that is none of those there are, something required.
const aboutForm = `: (unknown (key|value|sink type|operation)\b|must be (a list|a mapping|text|true or false|a single value)|` +
	`is empty: |is required: (at least one|one of|the plural name|the sink's place))|` +
	`is not a (duration|size|whole number)|is neither true nor false`

// TestBadConfigs: what informd refuses for its form the schema refuses as well, at the
// same key.
func TestBadConfigs(t *testing.T) {
	s := compiled(t, schema.Config())
	form, refused := regexp.MustCompile(aboutForm), 0
	for _, file := range glob(t, "internal/configfile/testdata/*.bad.yaml", 100) {
		text := read(t, file)
		comment, _, _ := strings.Cut(string(text), "\n")
		place := regexp.MustCompile(`^# \d+:\d+: (?:(\S+): )?`).FindStringSubmatch(comment)
		// "the file is empty" is about no value at all; a path that is quoted or about a
		// value behind an alias has no place in a document.
		if !form.MatchString(comment) || place == nil || strings.Contains(place[1], `"`) || strings.Contains(comment, "the file is empty") ||
			strings.Contains(comment, "journal.dir: is empty") || strings.Contains(comment, ".condition: is empty") {
			continue
		}
		refused++
		t.Run(file[strings.LastIndex(file, "/")+1:], func(t *testing.T) {
			err := s.Validate(fromYAML(t, text))
			invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
			if !ok {
				t.Fatalf("the schema takes it, informd says: %s (%v)", comment, err)
			}
			path := location(place[1])
			around := path[:max(len(path)-1, 0)] // an unknown or a missing key is one of the mapping around it
			if !slices.ContainsFunc(leaves(invalid), func(at []string) bool { return slices.Equal(at, path) || slices.Equal(at, around) }) {
				t.Errorf("the schema refuses something else: %v, informd says: %s", err, comment)
			}
		})
	}
	if refused < 40 {
		t.Errorf("found %d mistakes of form only", refused)
	}
}

// location takes a key path of informd's apart: sinks[0].match[1].
func location(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
}

// leaves are the places of all that is wrong.
func leaves(e *jsonschema.ValidationError) [][]string {
	if len(e.Causes) == 0 {
		return [][]string{e.InstanceLocation}
	}
	var all [][]string
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// TestSinkTypes: an entry of sinks has the keys of its own type, and no others.
func TestSinkTypes(t *testing.T) {
	s := compiled(t, schema.Config())
	for text, good := range map[string]bool{
		"{name: a, type: stdout, format: pretty}":                                        true,
		"{name: a, type: stdout, format: json}":                                          false,
		"{name: a, type: stdout, path: /a}":                                              false,
		"{name: a, type: file}":                                                          false,
		"{name: a, type: file, path: /a, maxBytes: 1MiB, match: [{ops: [deleted]}]}":     true,
		"{name: a, type: file, path: /a, maxBytes: 1048576}":                             true,
		"{name: a, type: file, path: /a, maxBytes: 1 MB}":                                false,
		"{name: a, type: webhook, url: '${env:URL}', timeout: 1m30s, headers: {X-A: 1}}": true,
		"{name: a, type: webhook, url: 'https://a', timeout: 10}":                        false,
		"{name: a, type: nats, servers: 'nats://a', tls: {caFile: /a}}":                  true,
		"{name: a, type: nats, servers: 'nats://a', tls: {cafile: /a}}":                  false,
		"{name: a, type: webhook, url: 'https://a', tls: }":                              true,
		"{name: a}": false,
	} {
		config := fromYAML(t, []byte("resources: [{resource: pods}]\nsinks: ["+text+"]\n"))
		if err := s.Validate(config); (err == nil) != good {
			t.Errorf("%s: %v, want it to be good: %t", text, err, good)
		}
	}
}
