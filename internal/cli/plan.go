package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/daemon"
)

func planCommand(std streams) *cobra.Command {
	var output *format
	cmd := &cobra.Command{
		Use: "plan", Short: "show what informd would watch, and which permissions are missing", GroupID: setUpGroup,
		Long: `informd plan asks the API server, with a few small requests per resource. It changes
nothing and can run beside an informd with the same config. It shows one row per target,
and one row for a wildcard without any.

SCOPE       one watch of the cluster, or one per namespace
NAMESPACES  the namespaces of the target, and how many match now
STATE       ready, or why informd cannot watch the resource now
OBJECTS     number of objects in these namespaces, as the API server counts them; with a
            selector it does not: > marks a lower bound
MISSING     verbs that the credentials lack`,
		Example: `informd plan -c config.yaml
informd plan -o json | jq '.targets[] | select(.state != "ready")'`,
		Annotations: exitCodes("0 informd can watch everything, now or when it is served, " +
			"1 informd cannot watch everything, or the API server does not answer, 2 wrong usage or config"),
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := std.loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			server, planned, err := daemon.Plan(cmd.Context(), c)
			if err != nil {
				return err
			}
			p := newPlanReport(c.Cluster, server, planned)
			return errors.Join(output.show(std.out, p, func(out io.Writer) error { return printPlan(out, p) }), p.Failure())
		},
	}
	configFlag(cmd)
	output = outputFlag(cmd)
	return cmd
}
