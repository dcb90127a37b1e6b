package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/informd/informd/internal/display"
)

// configKey is what the schema of the config says of a key. Keys of one path differ by the sink
// types that have them.
type configKey struct {
	path string
	// types are the sink types that have the key; none means all.
	types                   []string
	kind, byDefault, values string
	description             string
}

// configKeys are the keys of a config. Those of a sink type are in it twice: below sinks, and below
// sinks.<type>, beside the keys that all types have.
type configKeys struct {
	all   []configKey // sorted by path
	types []string    // of sinks
}

// configKeys reads the schema of the config.
func (p Program) configKeys() (configKeys, error) {
	text, err := p.configSchema()
	if err != nil {
		return configKeys{}, err
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return configKeys{}, fmt.Errorf("read the schema of the config: %w", err)
	}
	var k configKeys
	k.read(root, "")
	for _, name := range k.types {
		k.all = append(k.all, configKey{
			path: "sinks." + name, types: []string{name}, kind: "object", description: "An entry of sinks with type: " + name + ".",
		})
		for _, key := range k.all {
			if below, ok := strings.CutPrefix(key.path, "sinks."); ok && key.has(name) && !slices.Contains(k.types, firstStep(below)) {
				key.path, key.types = "sinks."+name+"."+below, []string{name}
				k.all = append(k.all, key)
			}
		}
	}
	slices.SortStableFunc(k.all, func(a, b configKey) int { return cmp.Compare(a.path, b.path) })
	return k, nil
}

func firstStep(path string) string {
	step, _, _ := strings.Cut(path, ".")
	return step
}

// has reports whether sinks of a type have the key.
func (k configKey) has(sinkType string) bool {
	return len(k.types) == 0 || slices.Contains(k.types, sinkType)
}

// read adds the keys in a schema: its own, those of list items and of alternatives, and those of each
// sink type. Of is the sink type that the schema is for, none for all.
func (k *configKeys) read(node map[string]any, path string, of ...string) {
	properties, _ := node["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if inner, ok := properties[name].(map[string]any); ok { // true stands for a key of all sink types
			at := strings.TrimPrefix(path+"."+name, ".")
			k.all = addKey(k.all, newConfigKey(inner, at), of...)
			k.read(inner, at, of...)
		}
	}
	for _, inner := range alternativesOf(node, "anyOf", "allOf") {
		if sinkType := constOf(inner); sinkType != "" {
			k.types = append(k.types, sinkType)
			k.read(at(inner, "then"), path, sinkType)
			continue
		}
		k.read(inner, path, of...)
	}
	if items, ok := node["items"].(map[string]any); ok {
		k.read(items, path, of...)
	}
}

// addKey adds a key of these sink types, or the types to the same key of other types.
func addKey(all []configKey, key configKey, types ...string) []configKey {
	i := slices.IndexFunc(all, func(other configKey) bool {
		other.types = nil
		return reflect.DeepEqual(other, key)
	})
	if i < 0 {
		i = len(all)
		all = append(all, key)
	}
	all[i].types = append(all[i].types, types...)
	slices.Sort(all[i].types)
	all[i].types = slices.Compact(all[i].types)
	return all
}

// newConfigKey reads the schema of a key.
func newConfigKey(schema map[string]any, path string) configKey {
	kinds := kindsOf(schema)
	if slices.Contains(kinds, "boolean") && slices.Contains(kinds, "number") { // text that YAML may take for either
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "boolean" || kind == "number" })
	}
	slices.Sort(kinds)
	key := configKey{path: path, kind: strings.Join(slices.Compact(kinds), " or "), values: strings.Join(enumOf(schema), ", ")}
	key.description, _ = schema["description"].(string)
	if value := schema["default"]; value != nil {
		text, _ := json.Marshal(value) // it was unmarshaled
		key.byDefault = string(text)
	}
	return key
}

// constOf returns the sink type that the condition of a schema names.
func constOf(schema map[string]any) string {
	text, _ := at(schema, "if", "properties", "type")["const"].(string)
	return text
}

// alternativesOf are the schemas in lists of a schema.
func alternativesOf(node map[string]any, lists ...string) (all []map[string]any) {
	for _, list := range lists {
		branches, _ := node[list].([]any)
		for _, branch := range branches {
			if branch, ok := branch.(map[string]any); ok {
				all = append(all, branch)
			}
		}
	}
	return all
}

// kindsOf names the types that a value may have.
func kindsOf(node map[string]any) (kinds []string) {
	switch of := node["type"].(type) {
	case string:
		kinds = append(kinds, strings.ReplaceAll(of, "array", "list"))
	case []any:
		for _, one := range of {
			if text, ok := one.(string); ok && text != "null" {
				kinds = append(kinds, text)
			}
		}
	}
	for _, branch := range alternativesOf(node, "anyOf") {
		kinds = append(kinds, kindsOf(branch)...)
	}
	return kinds
}

// enumOf are the allowed values of a key, or of its items.
func enumOf(node map[string]any) (values []string) {
	enum, _ := node["enum"].([]any)
	for _, value := range enum {
		values = append(values, fmt.Sprint(value))
	}
	inner := alternativesOf(node, "anyOf")
	if items, ok := node["items"].(map[string]any); ok {
		inner = append(inner, items)
	}
	for _, one := range inner {
		if values == nil {
			values = enumOf(one)
		}
	}
	return values
}

// paths are those of all keys.
func (k configKeys) paths() []string {
	paths := make([]string, len(k.all))
	for i, key := range k.all {
		paths[i] = key.path
	}
	return slices.Compact(paths)
}

// find returns the path of the key that a user names, in full or by its end.
func (k configKeys) find(said string) (path string, err error) {
	said = regexp.MustCompile(`\[([0-9]*|\*)\]`).ReplaceAllString(said, "")
	all := k.paths()
	if slices.Contains(all, said) {
		return said, nil
	}
	all = slices.DeleteFunc(all, func(p string) bool {
		below, ok := strings.CutPrefix(p, "sinks.")
		return ok && slices.Contains(k.types, firstStep(below)) // it is below sinks, too
	})
	var ends, lasts []string
	for _, p := range all {
		if strings.HasSuffix(strings.ToLower("."+p), "."+strings.ToLower(said)) {
			ends = append(ends, p)
		}
		lasts = append(lasts, p[strings.LastIndex(p, ".")+1:])
	}
	switch {
	case len(ends) == 1:
		return ends[0], nil
	case len(ends) > 1:
		return "", fmt.Errorf("the key %q is ambiguous: name one of %s", said, strings.Join(ends, ", "))
	case !strings.Contains(said, "."):
		return "", fmt.Errorf("unknown key %q%s", said, display.DidYouMean(said, lasts))
	}
	return "", fmt.Errorf("unknown key %q%s", said, display.DidYouMean(said, k.paths()))
}

// print shows the keys of a path for people, and the keys below it; "" is the config as a whole.
func (k configKeys) print(out io.Writer, path string) error {
	before, types := "", 0
	var below []configKey
	for _, key := range k.all {
		name, ok := strings.CutPrefix("."+key.path, strings.TrimSuffix("."+path, ".")+".")
		switch {
		case key.path == path:
			fmt.Fprint(out, before)
			key.print(out)
			before, types = "\n", types+len(key.types)
		case ok && !strings.Contains(name, ".") && (path != "sinks" || !slices.Contains(k.types, name)):
			first, _, _ := strings.Cut(key.description, ". ")
			below = addKey(below, configKey{path: name, kind: key.kind, description: strings.TrimSuffix(first, ".")}, key.types...)
		}
	}
	if len(below) == 0 {
		return nil
	}
	fmt.Fprintln(out, before+"KEYS")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	differ := slices.ContainsFunc(below, func(key configKey) bool { return len(key.types) != types })
	for _, key := range below {
		row := []string{"  " + key.path, key.kind, cmp.Or(strings.Join(key.types, ", "), "all"), key.description}
		if !differ {
			row = slices.Delete(row, 2, 3)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

func (k configKey) print(out io.Writer) {
	for _, line := range [][2]string{
		{"KEY", k.path}, {"TYPE", cmp.Or(k.kind, "any")}, {"SINKS", strings.Join(k.types, ", ")}, {"DEFAULT", k.byDefault}, {"VALUES", k.values},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "%-8s %s\n", line[0], line[1])
		}
	}
	if k.description != "" {
		fmt.Fprintf(out, "\n  %s\n", strings.ReplaceAll(wrap(k.description, 88), "\n", "\n  "))
	}
}

// wrap breaks a text into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
