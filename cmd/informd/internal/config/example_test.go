package config_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

// The example at the root of the repository is a valid config for the sinks
// that informd is built with.
func TestExample(t *testing.T) {
	const file = "../../../../config.example.yaml"
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Its first lines say what it takes to check it.
	told := regexp.MustCompile(`(?s)\A.{0,500}\n# environment: ((?:[A-Z_]+=\w+ )+)informd validate -c config\.example\.yaml\n`).FindSubmatch(body)
	if told == nil {
		t.Fatal("how to validate it is not told")
	}
	for pair := range strings.FieldsSeq(string(told[1])) {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	if _, err := config.Parse(file, body, drivers.All()); err != nil {
		t.Fatalf("Parse:\n%v", err)
	}

	// It is where users look keys up: none may be missing.
	requireKeys(t, string(body), keysOf(reflect.TypeFor[config.Config]()))
	entries := strings.Split(string(body), "\n  - name: ")
	for _, d := range drivers.All() {
		i := slices.IndexFunc(entries, func(entry string) bool { return strings.Contains(entry, "\n    type: "+d.Type+"\n") })
		if i < 0 {
			t.Errorf("no sink of type %s", d.Type)
			continue
		}
		requireKeys(t, entries[i], keysOf(reflect.TypeOf(d.New()).Elem()))
		requireDefaults(t, entries[i], d.New())
	}
}

// requireDefaults compares what stands in brackets behind a sink's own key with
// the driver's value. Zero is "not set", which the words explain.
func requireDefaults(t *testing.T, entry string, options sink.Config) {
	t.Helper()
	told := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^    (\w+):.*#(?:.*\n +#)*?.*\[([^\] ]+)\]`).FindAllStringSubmatch(entry, -1) {
		told[found[1]] = strings.Trim(found[2], `"`)
	}
	for f, value := range reflect.ValueOf(options).Elem().Fields() {
		key := f.Tag.Get("yaml")
		if want := fmt.Sprint(value.Interface()); !value.IsZero() && told[key] != want {
			t.Errorf("the default of %s is told as %q, but is %q, in:\n%s", key, told[key], want, entry)
		}
	}
}

// requireKeys looks for keys in part of the example. A comment will do: some
// keys exclude each other.
func requireKeys(t *testing.T, part string, keys []string) {
	t.Helper()
	for _, key := range keys {
		if !regexp.MustCompile(`(?m)^\s*(# |- |- \{)?` + key + `:`).MatchString(part) {
			t.Errorf("the key %s is missing in:\n%s", key, part)
		}
	}
}

// keysOf lists the keys of a struct, and of those in it, that are supported.
func keysOf(t reflect.Type) []string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var keys []string
	for f := range t.Fields() {
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" {
			keys = append(keys, keysOf(f.Type)...)
		}
		if key == "-" || key == "" {
			continue
		}
		keys = append(append(keys, key), keysOf(f.Type)...)
	}
	return keys
}

// Every entry that a page of the docs shows is valid.
func TestDocsEntries(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/shaping.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	for _, block := range blocks {
		if _, err := config.Parse("docs/shaping.md", []byte(block[1]+"sinks: [{name: out, type: stdout}]\n"), drivers.All()); err != nil {
			t.Errorf("%v in:\n%s", err, block[1])
		}
	}
	if len(blocks) < 4 {
		t.Errorf("%d entries: the examples are gone", len(blocks))
	}
}
