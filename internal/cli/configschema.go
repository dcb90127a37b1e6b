package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/schema"
)

// configSchema returns the schema of the config for the sink types of the program. The keys of
// types that informd lacks have the text of their help tags.
func (p Program) configSchema() ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(schema.Config(), &whole); err != nil {
		return nil, fmt.Errorf("read the schema of the config: %w", err)
	}
	entry := at(whole, "properties", "sinks", "items")
	common := at(entry, "properties")
	shipped, _ := entry["allOf"].([]any)
	var names []string
	var branches []any
	own := false
	for _, d := range p.Drivers {
		if slices.Contains(names, d.Type) {
			continue // the first one counts
		}
		names = append(names, d.Type)
		i := slices.IndexFunc(shipped, func(branch any) bool {
			branchOf, _ := branch.(map[string]any)
			return constOf(branchOf) == d.Type
		})
		if i >= 0 {
			branches = append(branches, shipped[i])
			continue
		}
		own = true
		branches = append(branches, configfile.SinkType(d, common, func(_ reflect.Type, field reflect.StructField) string {
			return field.Tag.Get("help")
		}))
	}
	if !own && len(branches) == len(shipped) {
		return schema.Config(), nil
	}
	entry["allOf"] = branches
	at(common, "type")["enum"] = names
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(whole)
	return text.Bytes(), err
}

// at returns the object below another one. The shipped schema has it.
func at(node map[string]any, path ...string) map[string]any {
	for _, key := range path {
		node, _ = node[key].(map[string]any)
	}
	return node
}
