package cli

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
)

func resnapshotCommand(std streams) *cobra.Command {
	var sink string
	cmd := &cobra.Command{
		Use: "resnapshot <resource>...", Short: "deliver all objects of resources again, to every sink or to one", GroupID: operateGroup,
		Long: `informd resnapshot emits each object of the resources again, as a snapshot between begin
and synced events. All events of a resource have the same run, as an attribute and in the
id. The command waits until the run is complete.

Name a resource as kubectl does: pods, deployments.apps. The group of pods is core.

Without --sink, informd lists the resource, and every sink gets the objects. If informd
ends before the run is complete, the command fails: call it again.

With --sink, this sink alone gets the last state of each object in the journal. informd
does not ask the API server, and keeps the request over a restart. If the sink is down,
the command ends after 15s, and the re-snapshot runs when the sink works again. informd
status shows pending ones.`,
		Example:           "informd resnapshot deployments.apps configmaps\ninformd resnapshot pods --sink bus",
		Annotations:       exitCodes("0 ok or pending, 1 failure or some objects are missing, 2 wrong usage or config"),
		ValidArgsFunction: std.completeResources,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misused("resnapshot needs a resource, as in informd resnapshot deployments.apps")
			}
			return nil
		},
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("sink") && sink == "" {
				return misused("--sink is empty: name a sink, or remove --sink to deliver to every sink")
			}
			return nil
		},
	}
	std.sinkFlag(cmd, &sink, "name of the only sink that gets the objects, from the journal (default: every sink)")
	return std.asking(cmd, nil, func(ctx context.Context, c client, output *format, resources []string) error {
		var outcomes []admin.Resnapshot
		var failed error
		for _, resource := range resources {
			query := url.Values{"resource": {resource}}
			if sink != "" {
				query.Set("sink", sink)
			}
			var more []admin.Resnapshot
			err := c.post(ctx, "/resnapshot", query, &more)
			outcomes, failed = append(outcomes, more...), errors.Join(failed, err)
		}
		if outcomes == nil {
			return failed
		}
		return errors.Join(failed, output.show(std.out, outcomes, func(out io.Writer) error { return printResnapshots(out, outcomes) }), incomplete(outcomes))
	})
}

// incomplete returns the error of outcomes that lack objects.
func incomplete(outcomes []admin.Resnapshot) error {
	for _, o := range outcomes {
		if o.Error != "" {
			return errors.New("the re-snapshot is incomplete; see ERROR, and call informd resnapshot again")
		}
	}
	return nil
}

func printResnapshots(out io.Writer, outcomes []admin.Resnapshot) error {
	rows := [][]string{{"TARGET", "OBJECTS", "RUN", "ERROR"}}
	for _, o := range outcomes {
		objects, run := strconv.Itoa(o.Objects), count(o.Run)
		if o.Error != "" && o.Objects == 0 {
			objects, run = "-", "-" // nothing was emitted
		}
		rows = append(rows, []string{o.Target, objects, run, o.Error + o.Pending})
	}
	return align(out, rows)
}
