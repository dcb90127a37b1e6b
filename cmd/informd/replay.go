package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
)

func replayCommand() command {
	return command{
		name: "replay", summary: "have a running informd deliver again what it delivered to a sink",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.String("sink", "", "name of the sink")
			flags.Duration("since", 0, "how far back, as in 10m; the events come under new ids that end in :r<run>")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			since, err := flags.GetDuration("since")
			if err != nil {
				return usageError{err.Error()}
			}
			sink := flags.Lookup("sink").Value.String()
			if sink == "" || since <= 0 {
				return usageError{"replay needs --sink and --since, as in informd replay --sink bus --since 10m"}
			}
			c, err := newClient(flags)
			if err != nil {
				return err
			}
			var n admin.Count
			if err := c.ask(ctx, http.MethodPost, "/replay", url.Values{"sink": {sink}, "since": {since.String()}}, &n); err != nil {
				return err
			}
			_, err = fmt.Fprintf(io.out, "replay: sink %s goes back by %d events\n", sink, n.Events)
			return err
		},
	}
}
