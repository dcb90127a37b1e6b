package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
)

// errDiverged is the outcome of a verify that found something.
var errDiverged = errors.New("what informd has announced and what the cluster holds are not the same; it has begun to announce the difference")

func verifyCommand() command {
	return command{
		name: "verify", summary: "have a running informd compare what it has announced with the cluster; exit code 1 if they differ",
		long: `It asks the informd that runs with this config, through admin.listen, to list every
resource, metadata only, and to compare that with what it has announced. What differs
it begins to announce at once. A sample of objects is compared with etcd itself, which
finds API servers whose watch cache is wrong.

With --sink it reads what the destination of that sink holds instead, and compares it with
what informd has announced. That is possible for a nats sink with jetstream: true.`,
		examples: "informd verify -c config.yaml\ninformd verify --sink bus",
		exits:    "0 no difference, 1 there is one, or not every target could be compared, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.String("sink", "", "name of the sink whose destination is compared; absent = the cluster is")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			c, err := newClient(flags)
			if err != nil {
				return err
			}
			if sink := flags.Lookup("sink").Value.String(); sink != "" {
				var verdict admin.SinkVerdict
				if err := c.post(ctx, "/verify", url.Values{"sink": {sink}}, &verdict); err != nil {
					return err
				}
				return printSinkVerdict(io, &verdict)
			}
			var verdicts []admin.Verdict
			if err := c.post(ctx, "/verify", nil, &verdicts); err != nil {
				return err
			}
			return printVerdicts(io, verdicts)
		},
	}
}

// errSinkDiverged is the outcome of a verify of a sink that found something.
var errSinkDiverged = errors.New("the destination holds other states than informd has announced; informd resnapshot --sink repairs it")

func printSinkVerdict(io streams, v *admin.SinkVerdict) error {
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SINK\tOBJECTS\tDIVERGENCES\tERROR")
	fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", visible(v.Sink), v.Objects, v.Divergences, visible(v.Error))
	for i, d := range v.Examples {
		if i == 0 {
			fmt.Fprintln(table, "\nOBJECT\tPROBLEM")
		}
		fmt.Fprintf(table, "%s\t%s\n", visible(d.Object), visible(d.Problem))
	}
	if v.Note != "" {
		fmt.Fprintf(table, "\n%s\n", visible(v.Note))
	}
	var outcome error
	switch {
	case v.Divergences > 0:
		outcome = errSinkDiverged
	case v.Error != "":
		outcome = errors.New("not every target could be compared")
	}
	return errors.Join(outcome, table.Flush())
}

func printVerdicts(io streams, verdicts []admin.Verdict) error {
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tOBJECTS\tDIVERGENCES\tERROR")
	var outcome error
	for _, v := range verdicts {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", visible(v.Target), v.Objects, v.Divergences, visible(v.Error))
		if v.Divergences > 0 || len(v.Mismatches) > 0 {
			outcome = errDiverged
		}
		if v.Error != "" && outcome == nil {
			outcome = errors.New("not every target could be compared")
		}
	}
	return errors.Join(outcome, table.Flush(), printMismatches(io, verdicts))
}

// printMismatches prints what API servers showed otherwise than etcd holds it.
func printMismatches(io streams, verdicts []admin.Verdict) error {
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	for _, v := range verdicts {
		for i, m := range v.Mismatches {
			if i == 0 {
				fmt.Fprintf(table, "\nThe watch cache of an API server is wrong about %s; restart that kube-apiserver.\n", visible(v.Target))
				fmt.Fprintln(table, "SERVER\tNAMESPACE\tNAME\tREVISION\tIN ETCD\tSHOWN")
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", visible(m.Server), visible(m.Namespace), visible(m.Name), m.Revision,
				stateOf(m.UID, m.ResourceVersion), stateOf(m.ListedUID, m.Listed))
		}
	}
	return table.Flush()
}

// stateOf is how an object is shown: by uid and revision.
func stateOf(uid string, resourceVersion uint64) string {
	if resourceVersion == 0 {
		return "none"
	}
	return fmt.Sprintf("%s:%d", visible(uid), resourceVersion)
}
