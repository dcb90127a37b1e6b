package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
)

func rewindCommand(std streams) *cobra.Command {
	var sink string
	var since time.Duration
	cmd := &cobra.Command{
		Use: "rewind", Short: "deliver past events to a sink again", GroupID: operateGroup,
		Long: `informd rewind moves the cursor of a sink back in the journal. The sink gets the events
since then again, in their first order. They have a separate run, as an attribute and in
the id. begin and synced events are not repeated. Events that the history limit has removed
are in gap events. Other sinks are not affected. If the sink is down, its cursor moves
back too, and it gets the events when it works again.`,
		Example:     "informd rewind --sink bus --since 10m",
		Annotations: exitCodes(usualExits),
		Args:        noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if sink == "" || since <= 0 {
				return misused("rewind needs --sink and --since, as in informd rewind --sink bus --since 10m")
			}
			return nil
		},
	}
	std.sinkFlag(cmd, &sink, "name of the sink")
	cmd.Flags().DurationVar(&since, "since", 0, "how far the cursor moves back, as in 10m")
	return std.asking(cmd, nil, func(ctx context.Context, c client, output *format, _ []string) error {
		var r admin.Rewind
		if err := c.post(ctx, "/rewind", url.Values{"sink": {sink}, "since": {since.String()}}, &r); err != nil {
			return err
		}
		return output.show(std.out, &r, func(out io.Writer) error { return printRewind(out, sink, &r) })
	})
}

func printRewind(out io.Writer, sink string, r *admin.Rewind) error {
	text := fmt.Sprintf("rewind: sink %s gets %s again", sink, number(r.Events, "event", "events"))
	if r.Events == 0 {
		text += "; the journal has no event from that time on that it has"
	}
	if r.State != "" {
		text += fmt.Sprintf("; it is %s: %s", r.State, r.Error)
	}
	_, err := fmt.Fprintln(out, visible(text))
	return err
}
