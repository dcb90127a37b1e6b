package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/pkg/sink/drivers"
)

func validateCommand() command {
	return command{
		name: "validate", summary: "check the config, without contact to anything",
		flags: config.AddFlags,
		run: func(_ context.Context, io streams, flags *pflag.FlagSet) error {
			c, err := config.Load(config.Source{Flags: flags, Drivers: drivers.All()})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(io.out, "%s: ok (resources: %d, sinks: %d)\n", c.Path, len(c.Resources), len(c.Sinks))
			return err
		},
	}
}
