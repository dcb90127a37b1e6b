package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/display"
)

func explainCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use: "explain [key]", Short: "show the documentation of a key of the config", GroupID: setUpGroup,
		Long: `informd explain shows the type, the default, the values and the meaning of a key of the
config, and the keys below it. Without a key, it shows the top-level keys. A key is a path
with dots, as in sinks.nats.tls.caFile; a name alone is enough if only one key has it. The
keys of a sink type are below its name, as in sinks.nats.`,
		Example:     "informd explain resources\ninformd explain journal.maxBytes\ninformd explain sinks.nats",
		Annotations: exitCodes("0 ok, 2 unknown key"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misused("unexpected argument %q: explain takes one key", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			keys, err := std.program.configKeys()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var paths []string
			for _, key := range keys {
				paths = append(paths, key.path)
			}
			return paths, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			keys, err := std.program.configKeys()
			if err != nil || len(args) == 0 {
				return errors.Join(err, keys.print(std.out, ""))
			}
			path, err := keys.find(args[0])
			if err != nil {
				return misused("%v", err)
			}
			return keys.print(std.out, path)
		},
	}
}

// configKey is what the schema of the config says of a key.
type configKey struct{ path, kind, byDefault, values, description string }

// configKeys are the keys of a config, sorted by their paths. Those of a sink type are below sinks.<type>.
type configKeys []configKey

// configKeys reads the schema of the config.
func (p Program) configKeys() (all configKeys, err error) {
	text, err := p.configSchema()
	if err != nil {
		return nil, err
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("read the schema of the config: %w", err)
	}
	all.read(root, "")
	slices.SortStableFunc(all, func(a, b configKey) int { return cmp.Compare(a.path, b.path) })
	// An alternative of a value may have the same keys.
	return slices.CompactFunc(all, func(a, b configKey) bool { return a.path == b.path }), nil
}

// read adds the keys in a schema: its own, those of list items and of alternatives, and those of each
// sink type.
func (k *configKeys) read(node map[string]any, path string) {
	properties := at(node, "properties")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if inner, ok := properties[name].(map[string]any); ok { // true stands for a key of all sink types
			below := strings.TrimPrefix(path+"."+name, ".")
			*k = append(*k, newConfigKey(inner, below))
			k.read(inner, below)
		}
	}
	for _, inner := range alternativesOf(node) {
		if sinkType := constOf(inner); sinkType != "" {
			below := path + "." + sinkType
			about := "An entry of sinks with type: " + sinkType + ". It has the keys of sinks as well."
			*k = append(*k, configKey{path: below, kind: "object", description: about})
			k.read(at(inner, "then"), below)
			continue
		}
		k.read(inner, path)
	}
	if items := at(node, "items"); items != nil {
		k.read(items, path)
	}
}

// newConfigKey reads the schema of a key.
func newConfigKey(schema map[string]any, path string) configKey {
	kinds := make(map[string]bool)
	kindsOf(schema, kinds)
	if kinds["boolean"] && kinds["number"] { // text that YAML may take for either
		delete(kinds, "boolean")
		delete(kinds, "number")
	}
	key := configKey{path: path, kind: strings.Join(slices.Sorted(maps.Keys(kinds)), " or "), values: enumOf(schema)}
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

// alternativesOf are the schemas of which a value has one, or all.
func alternativesOf(node map[string]any) (all []map[string]any) {
	for _, list := range []string{"anyOf", "allOf"} {
		branches, _ := node[list].([]any)
		for _, branch := range branches {
			if branch, ok := branch.(map[string]any); ok {
				all = append(all, branch)
			}
		}
	}
	return all
}

// kindsOf notes the types that a value may have.
func kindsOf(node map[string]any, kinds map[string]bool) {
	list, _ := node["type"].([]any)
	for _, one := range append(list, node["type"]) {
		if kind, ok := one.(string); ok && kind != "null" {
			kinds[strings.ReplaceAll(kind, "array", "list")] = true
		}
	}
	for _, inner := range alternativesOf(node) {
		kindsOf(inner, kinds)
	}
}

// enumOf lists the allowed values of a key, or of its items.
func enumOf(node map[string]any) string {
	if enum, ok := node["enum"].([]any); ok {
		return listed(enum)
	}
	inner := alternativesOf(node)
	if items := at(node, "items"); items != nil {
		inner = append(inner, items)
	}
	for _, one := range inner {
		if values := enumOf(one); values != "" {
			return values
		}
	}
	return ""
}

// find returns the path of the key that a user names, in full or by its end.
func (k configKeys) find(said string) (path string, err error) {
	said = regexp.MustCompile(`\[([0-9]*|\*)\]`).ReplaceAllString(said, "")
	var ends, known []string
	for _, key := range k {
		switch {
		case key.path == said:
			return said, nil
		case strings.HasSuffix(strings.ToLower("."+key.path), "."+strings.ToLower(strings.TrimPrefix(said, "sinks."))):
			ends = append(ends, key.path)
		}
		name := key.path
		if !strings.Contains(said, ".") {
			name = name[strings.LastIndex(name, ".")+1:]
		}
		known = append(known, name)
	}
	switch {
	case len(ends) == 1:
		return ends[0], nil
	case len(ends) > 1:
		return "", fmt.Errorf("the key %q is ambiguous: name one of %s", said, strings.Join(ends, ", "))
	}
	return "", fmt.Errorf("unknown key %q%s", said, display.DidYouMean(said, known))
}

// print shows the key of a path for people, and the keys below it; "" is the config as a whole.
func (k configKeys) print(out io.Writer, path string) error {
	rows := [][]string{{"KEYS", "TYPE", "DESCRIPTION"}}
	for _, key := range k {
		name, below := strings.CutPrefix("."+key.path, strings.TrimSuffix("."+path, ".")+".")
		switch {
		case key.path == path:
			key.print(out)
		case below && !strings.Contains(name, "."):
			first, _, _ := strings.Cut(key.description, ". ")
			rows = append(rows, []string{name, key.kind, strings.TrimSuffix(first, ".")})
		}
	}
	return printTable(out, rows)
}

func (k configKey) print(out io.Writer) {
	for _, line := range [][2]string{
		{"KEY", k.path}, {"TYPE", cmp.Or(k.kind, "any")}, {"DEFAULT", k.byDefault}, {"VALUES", k.values},
	} {
		if line[1] != "" {
			fmt.Fprintf(out, "%-8s %s\n", line[0], line[1])
		}
	}
	if k.description != "" {
		fmt.Fprintf(out, "\n%s\n", k.description)
	}
}
