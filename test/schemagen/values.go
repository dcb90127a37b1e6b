package schemagen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const valuesHead = "# Values of the Helm chart\n\n" +
	"This page is generated from `values.schema.json` and `values.yaml` (`make docs` writes it). " +
	"[deploy/README.md](../../README.md#helm) has the commands: install, upgrade, uninstall, two replicas.\n\n" +
	"| value | type | default | meaning |\n|---|---|---|---|\n"

// ValuesPage makes the README of the Helm chart, a table of its values, from values.schema.json, which has
// their meaning, and values.yaml, which has their defaults.
func ValuesPage(schema, values []byte) ([]byte, error) {
	var root, defaults object
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, fmt.Errorf("read the schema of the values: %w", err)
	}
	if err := yaml.Unmarshal(values, &defaults); err != nil {
		return nil, fmt.Errorf("read the values: %w", err)
	}
	var page bytes.Buffer
	page.WriteString(valuesHead)
	err := printValues(&page, root, defaults, "")
	return page.Bytes(), err
}

// printValues writes a row for each value of a mapping. A mapping whose keys are all described has a row
// for each key instead of its own; others, such as resources, are parts of the Kubernetes API.
func printValues(page *bytes.Buffer, node, defaults object, prefix string) error {
	properties, _ := node["properties"].(object)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		inner, _ := properties[key].(object)
		fallback, has := defaults[key]
		below, _ := fallback.(object)
		switch name := prefix + key; {
		case name == "config":
			page.WriteString("| `config` | mapping | see `values.yaml` | The config of informd: " +
				"[every key](../../../docs/configuration.md). It is the ConfigMap. Helm merges mappings with the defaults; a list replaces theirs. |\n")
		case description(inner) == "":
			return fmt.Errorf("the value %s has no description", name)
		case explained(inner):
			if err := printValues(page, inner, below, name+"."); err != nil {
				return err
			}
		default:
			shown := "–"
			if text, err := json.Marshal(fallback); has && err == nil {
				shown = "`" + string(text) + "`"
			}
			fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", name, kindOf(inner), shown, strings.ReplaceAll(description(inner), "|", `\|`))
		}
	}
	return nil
}

// explained reports whether a mapping has keys, each with a description.
func explained(node object) bool {
	properties, _ := node["properties"].(object)
	for _, inner := range properties {
		if inner, _ := inner.(object); description(inner) == "" {
			return false
		}
	}
	return len(properties) > 0
}
