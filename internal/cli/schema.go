package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/informd/informd/schema"
)

func schemaCommand(std streams) *cobra.Command {
	documents := map[string]func() []byte{"config": schema.Config, "event": schema.Event}
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
			_, err := fmt.Fprintf(std.out, "%s", documents[args[0]]())
			return err
		},
	}
}
