package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/informd/informd/internal/spelling"
)

// configKey is a key of the config with its schemas: sinks of different types may have
// different keys of one name.
type configKey struct {
	path     string
	variants []keyVariant
	// only is the sink type whose keys are below the key, or "" for all types.
	only string
}

// keyVariant is a schema of a key, and the sink types that it is for; none means all.
type keyVariant struct {
	schema map[string]any
	types  []string
}

// configRoot returns the root of the config.
func (p Program) configRoot() (configKey, error) {
	text, err := p.configSchema()
	if err != nil {
		return configKey{}, err
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return configKey{}, fmt.Errorf("read the schema of the config: %w", err)
	}
	return configKey{variants: []keyVariant{{schema: root}}}, nil
}

// children are the keys below a key, by name.
func (k configKey) children() map[string]configKey {
	found := make(map[string]configKey)
	add := func(name string, v keyVariant) {
		child := found[name]
		child.path, child.only = strings.TrimPrefix(k.path+"."+name, "."), k.only
		text, _ := json.Marshal(v.schema) // it was unmarshaled
		for i, other := range child.variants {
			if same, _ := json.Marshal(other.schema); string(same) == string(text) {
				child.variants[i].types = append(other.types, v.types...)
				found[name] = child
				return
			}
		}
		child.variants = append(child.variants, v)
		found[name] = child
	}
	for _, v := range k.variants {
		eachSchema(v.schema, v.types, k.only, func(properties map[string]any, types []string) {
			for name, inner := range properties {
				if inner, ok := inner.(map[string]any); ok && inner["const"] == nil {
					add(name, keyVariant{inner, types})
				}
			}
		})
	}
	return found
}

// eachSchema calls do with the properties in a schema: its own, those of list items and of
// alternatives, and those of each sink type, or of one.
func eachSchema(node map[string]any, types []string, only string, do func(properties map[string]any, types []string)) {
	if properties, ok := node["properties"].(map[string]any); ok {
		do(properties, types)
	}
	if items, ok := node["items"].(map[string]any); ok {
		eachSchema(items, types, only, do)
	}
	for _, list := range []string{"anyOf", "oneOf", "allOf"} {
		branches, _ := node[list].([]any)
		for _, branch := range branches {
			branch, _ := branch.(map[string]any)
			of := types
			if when := constOf(branch); when != "" {
				if only != "" && when != only {
					continue
				}
				of = append(slices.Clone(types), when)
			}
			if then, ok := branch["then"].(map[string]any); ok {
				branch = then
			}
			eachSchema(branch, of, only, do)
		}
	}
}

// constOf returns the type that the condition of a branch names.
func constOf(branch map[string]any) string {
	condition, _ := branch["if"].(map[string]any)
	properties, _ := condition["properties"].(map[string]any)
	of, _ := properties["type"].(map[string]any)
	text, _ := of["const"].(string)
	return text
}

// Paths are all keys below a key, by path.
func (k configKey) Paths() map[string]configKey {
	all := make(map[string]configKey)
	for _, child := range k.children() {
		all[child.path] = child
		maps.Copy(all, child.Paths())
	}
	return all
}

// SinkTypes are the types that keys of sinks differ by.
func (k configKey) SinkTypes() []string {
	var types []string
	for _, child := range k.children()["sinks"].children() {
		types = append(types, child.types()...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// ofSinkType finds a key by a path with a sink type, as in sinks.nats.servers.
func (k configKey) ofSinkType(path string) (configKey, bool) {
	below, ok := strings.CutPrefix(path, "sinks.")
	name, rest, _ := strings.Cut(below, ".")
	if !ok || !slices.Contains(k.SinkTypes(), name) {
		return configKey{}, false
	}
	k.only = name
	found, ok := k.Paths()[strings.TrimSuffix("sinks."+rest, ".")]
	if !ok {
		return configKey{}, false
	}
	for i := range found.variants {
		found.variants[i].types = []string{name}
	}
	return found, true
}

// Find returns the key that a user names.
func (k configKey) Find(said string) (configKey, error) {
	path := regexp.MustCompile(`\[([0-9]*|\*)\]`).ReplaceAllString(said, "")
	all := k.Paths()
	if found, ok := all[path]; ok {
		return found, nil
	}
	if found, ok := k.ofSinkType(path); ok {
		return found, nil
	}
	var ends, leaves []string
	for p := range all {
		leaf := p[strings.LastIndex(p, ".")+1:]
		if strings.EqualFold(p, path) || strings.HasSuffix(strings.ToLower(p), "."+strings.ToLower(path)) {
			ends = append(ends, p)
		}
		leaves = append(leaves, leaf)
	}
	slices.Sort(ends)
	switch {
	case len(ends) == 1:
		return all[ends[0]], nil
	case len(ends) > 1:
		return configKey{}, fmt.Errorf("the key %q is ambiguous: name one of %s", said, strings.Join(ends, ", "))
	}
	candidates := slices.Sorted(maps.Keys(all))
	if !strings.Contains(path, ".") {
		slices.Sort(leaves)
		candidates = slices.Compact(leaves)
	}
	return configKey{}, fmt.Errorf("unknown key %q%s", said, spelling.DidYouMean(path, candidates))
}

// Print shows a key for people.
func (k configKey) Print(out io.Writer) error {
	for i, v := range k.variants {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if k.path != "" {
			v.print(out, k.path)
		}
	}
	children := k.children()
	if len(children) == 0 {
		return nil
	}
	if k.path != "" {
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, "KEYS")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	differ := false // by the sink type
	for _, child := range children {
		differ = differ || k.only == "" && !slices.Equal(child.types(), k.types())
	}
	for _, name := range slices.Sorted(maps.Keys(children)) {
		for _, row := range children[name].rows(differ) {
			fmt.Fprintf(table, "  %s\t%s\n", name, row)
		}
	}
	return table.Flush()
}

// types are the sink types that the key is for; none means all.
func (k configKey) types() []string {
	var types []string
	for _, v := range k.variants {
		types = append(types, v.types...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// rows describe the variants of a key: the type, the sink types if withTypes is true, and the
// first sentence. Variants that look the same share a row.
func (k configKey) rows(withTypes bool) []string {
	var looks [][2]string
	merged := make(map[[2]string]configKey)
	for _, v := range k.variants {
		look := [2]string{v.kind(), firstSentence(v.text("description"))}
		if _, ok := merged[look]; !ok {
			looks = append(looks, look)
		}
		same := merged[look]
		same.variants = append(same.variants, v)
		merged[look] = same
	}
	rows := make([]string, len(looks))
	for i, look := range looks {
		rows[i] = look[0] + "\t" + look[1]
		if withTypes {
			rows[i] = look[0] + "\t" + cmp.Or(strings.Join(merged[look].types(), ", "), "all") + "\t" + look[1]
		}
	}
	return rows
}

// print shows a schema of the key.
func (v keyVariant) print(out io.Writer, path string) {
	fmt.Fprintf(out, "KEY      %s\nTYPE     %s\n", path, v.kind())
	if of := (configKey{variants: []keyVariant{v}}).types(); len(of) > 0 {
		fmt.Fprintf(out, "SINKS    %s\n", strings.Join(of, ", "))
	}
	if value := v.schema["default"]; value != nil {
		text, _ := json.Marshal(value) // it was unmarshaled
		fmt.Fprintf(out, "DEFAULT  %s\n", text)
	}
	if values := enumOf(v.schema); len(values) > 0 {
		fmt.Fprintf(out, "VALUES   %s\n", strings.Join(values, ", "))
	}
	if text := v.text("description"); text != "" {
		fmt.Fprintln(out)
		for line := range strings.SplitSeq(wrap(text, 88), "\n") {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
}

func (v keyVariant) text(key string) string {
	text, _ := v.schema[key].(string)
	return text
}

// kind names the type of a key.
func (v keyVariant) kind() string {
	kinds := kindsOf(v.schema)
	return cmp.Or(strings.Join(kinds, " or "), "any")
}

func kindsOf(node map[string]any) (kinds []string) {
	switch of := node["type"].(type) {
	case string:
		kinds = append(kinds, of)
	case []any:
		for _, one := range of {
			if text, ok := one.(string); ok && text != "null" {
				kinds = append(kinds, text)
			}
		}
	}
	for _, list := range []string{"anyOf", "oneOf"} {
		branches, _ := node[list].([]any)
		for _, branch := range branches {
			if branch, ok := branch.(map[string]any); ok {
				kinds = append(kinds, kindsOf(branch)...)
			}
		}
	}
	for i, kind := range kinds {
		if kind == "array" {
			kinds[i] = "list"
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// enumOf are the allowed values of a key, or of its items.
func enumOf(node map[string]any) (values []string) {
	if enum, ok := node["enum"].([]any); ok {
		for _, value := range enum {
			values = append(values, fmt.Sprint(value))
		}
	}
	if items, ok := node["items"].(map[string]any); ok && values == nil {
		values = enumOf(items)
	}
	branches, _ := node["anyOf"].([]any)
	for _, branch := range branches {
		if branch, ok := branch.(map[string]any); ok && values == nil {
			values = enumOf(branch)
		}
	}
	return values
}

func firstSentence(text string) string {
	sentence, _, _ := strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
	return strings.TrimSuffix(sentence, ".")
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
