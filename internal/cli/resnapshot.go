package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/cli/internal/terminal"
)

func resnapshotCommand(std streams) *cobra.Command {
	var sink string
	var output *format
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
status shows pending ones. --sink needs journal.type embedded or nats.`,
		Example:           "informd resnapshot deployments.apps configmaps\ninformd resnapshot pods --sink bus",
		Annotations:       exitCodes("0 ok or pending, 1 failure or some objects are missing, 2 wrong usage or config"),
		ValidArgsFunction: std.completeResources,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misused("resnapshot needs a resource, as in informd resnapshot deployments.apps")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, resources []string) error {
			if cmd.Flags().Changed("sink") && sink == "" {
				return misused("--sink is empty: name a sink, or remove --sink to deliver to every sink")
			}
			c, err := std.newClient(cmd.Context(), cmd.Flags())
			if err != nil {
				return err
			}
			var outcomes []admin.Resnapshot
			var failed error
			for _, resource := range resources {
				more, err := c.resnapshot(cmd.Context(), resource, sink)
				outcomes, failed = append(outcomes, more...), errors.Join(failed, err)
			}
			if outcomes == nil {
				return failed
			}
			return errors.Join(failed, output.show(std.out, resnapshotsShown(outcomes)), incomplete(outcomes))
		},
	}
	serverFlag(cmd)
	std.sinkFlag(cmd, &sink, "name of the only sink that gets the objects, from the journal (default: every sink)")
	output = outputFlag(cmd)
	return cmd
}

func (c client) resnapshot(ctx context.Context, resource, sink string) (outcomes []admin.Resnapshot, err error) {
	query := url.Values{"resource": {resource}}
	if sink != "" {
		query.Set("sink", sink)
	}
	err = c.do(ctx, http.MethodPost, "/resnapshot", query, func(body io.Reader) error {
		return json.NewDecoder(body).Decode(&outcomes)
	})
	return outcomes, err
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

func resnapshotsShown(outcomes []admin.Resnapshot) shown {
	s := shown{document: outcomes}
	for _, o := range outcomes {
		s.names = append(s.names, o.Target)
	}
	s.table = func(out io.Writer) error {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "TARGET\tOBJECTS\tRUN\tERROR")
		for _, o := range outcomes {
			objects, run := strconv.Itoa(o.Objects), strconv.FormatUint(o.Run, 10)
			if o.Error != "" && o.Objects == 0 {
				objects, run = "-", "-" // nothing was emitted
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", o.Target, objects, run, cmp.Or(terminal.Visible(o.Error+o.Pending), "-"))
		}
		return table.Flush()
	}
	return s
}
