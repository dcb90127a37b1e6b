package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/informd/informd/schema"
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
