package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
)

func replayCommand() command {
	return command{
		name: "replay", summary: "have a running informd deliver again what it delivered to a sink",
		long: `It asks the informd that runs with this config, through admin.socket, to set the sink
back. The events come in the order in which they came first. They have a run of their
own, as an attribute and in the id; begin and synced do not come again. Other sinks
notice nothing. A sink that is down goes back, too, and delivers when it works again.`,
		examples: "informd replay --sink bus --since 10m",
		exits:    "0 ok, 1 failure, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.String("sink", "", "name of the sink")
			flags.Duration("since", 0, "how far back, as in 10m")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			since, err := flags.GetDuration("since")
			if err != nil {
				return misused("%v", err)
			}
			sink := flags.Lookup("sink").Value.String()
			if sink == "" || since <= 0 {
				return misused("replay needs --sink and --since, as in informd replay --sink bus --since 10m")
			}
			c, err := newClient(ctx, flags)
			if err != nil {
				return err
			}
			var r admin.Replay
			if err := c.post(ctx, "/replay", url.Values{"sink": {sink}, "since": {since.String()}}, &r); err != nil {
				return err
			}
			text := fmt.Sprintf("replay: sink %s goes back by %d events", sink, r.Events)
			if r.State != "" {
				text += fmt.Sprintf("; it is %s: %s", r.State, r.Error)
			}
			_, err = fmt.Fprintln(io.out, visible(text))
			return err
		},
	}
}
