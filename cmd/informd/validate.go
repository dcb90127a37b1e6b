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
		long: `It reads the config as 'run' would, with the INFORMD_* variables and the flags over
it, and prints all mistakes at once, each as file:line:column with what to do. What is
allowed, and probably not what is meant, is a warning.`,
		examples: `informd validate -c config.yaml
INFORMD_LOG_LEVEL=debug informd validate -c config.yaml`,
		exits: "0 the config is good, 2 it has mistakes",
		flags: config.AddFlags,
		run: func(_ context.Context, io streams, flags *pflag.FlagSet) error {
			c, err := config.Load(config.Source{Flags: flags, Drivers: drivers.All()})
			if err != nil {
				return err
			}
			for _, w := range c.Warnings {
				fmt.Fprintln(io.err, "warning:", w)
			}
			_, err = fmt.Fprintf(io.out, "%s: ok (resources: %d, sinks: %d)\n", c.Path, len(c.Resources), len(c.Sinks))
			return err
		},
	}
}
