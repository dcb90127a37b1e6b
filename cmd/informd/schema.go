package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/informd/informd/schema"
)

func schemaCommand() command {
	documents := map[string]func() []byte{"config": schema.Config, "event": schema.Event}
	return command{
		name: "schema", summary: "print the JSON Schema of the config file or of an event",
		long: `It prints a JSON Schema (draft 2020-12). With that of the config an editor completes
and checks while one types; 'informd validate' checks more. That of an event is for the
lines of stdout and file sinks and for the bodies of webhook requests; a batch is an
array of events.`,
		examples: `informd schema config > config.schema.json
informd schema event | jq .properties.op.enum`,
		exits: "0 ok, 2 wrong usage",
		verbs: []string{"config", "event"},
		run: func(_ context.Context, io streams, flags *pflag.FlagSet) error {
			_, err := fmt.Fprintf(io.out, "%s", documents[flags.Arg(0)]())
			return err
		},
	}
}
