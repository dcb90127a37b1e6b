package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/schema"
)

func schemaCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use: "schema config|event", Short: "print the JSON Schema of the config or of an event", GroupID: setUpGroup,
		Long: `informd schema prints a JSON Schema (draft 2020-12). An editor uses the schema of the
config to complete and check keys; 'informd validate' checks more. The schema of an event
describes the lines of stdout and file sinks and the bodies of webhook requests. A batch
is an array of events.`,
		Example: `informd schema config > config.schema.json
informd schema event | jq .properties.op.enum`,
		Annotations: exitCodes("0 ok, 2 wrong usage"), DisableFlagsInUseLine: true,
		ValidArgs: []string{"config", "event"}, Args: oneOf("config", "event"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := schema.Event(), error(nil)
			if args[0] == "config" {
				text, err = std.program.configSchema()
			}
			if err == nil {
				_, err = std.out.Write(text)
			}
			return err
		},
	}
}

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
		branches = append(branches, configfile.SinkType(d, common, func(_ reflect.Type, field reflect.StructField) string {
			return field.Tag.Get("help")
		}))
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
