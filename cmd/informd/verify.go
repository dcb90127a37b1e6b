package main

import (
	"context"
	"encoding/json"
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
		long: `It asks the informd that runs with this config, through admin.socket, to list every
resource, metadata only, and to compare that with what it has announced. What differs
it begins to announce at once. A sample of objects is compared with etcd itself, which
finds API servers whose watch cache is wrong.

With --sink it reads the last event of each object in the destination of that sink instead,
and compares it with what informd has announced. That is possible for a nats sink with
jetstream: true. It names up to 20 objects, each with its uid and revision in the
destination and in what was announced. What the destination lacks or holds in an older
state comes with informd resnapshot --resource <resource> --sink <sink>. The last event of
an object that does not exist stays in the stream: consumers remove the object at the
synced event of that re-snapshot, and nats stream purge --subject removes the event.`,
		examples: "informd verify -c config.yaml\ninformd verify --sink bus\ninformd verify --sink bus -o json",
		exits:    "0 no difference, 1 there is one, or not every target could be compared, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.String("sink", "", "name of the sink whose destination is compared; absent = the cluster is")
			flags.StringP("output", "o", "table", "table or json: the answer of the running informd")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			output := flags.Lookup("output").Value.String()
			if output != "table" && output != "json" {
				return misused("--output %q: table or json", output)
			}
			c, err := newClient(ctx, flags)
			if err != nil {
				return err
			}
			if sink := flags.Lookup("sink").Value.String(); sink != "" {
				var verdict admin.SinkVerdict
				if err := c.post(ctx, "/verify", url.Values{"sink": {sink}}, &verdict); err != nil {
					return err
				}
				if output == "json" {
					return errors.Join(sinkOutcome(&verdict), printJSON(io, &verdict))
				}
				return errors.Join(sinkOutcome(&verdict), printSinkVerdict(io, &verdict))
			}
			var verdicts []admin.Verdict
			if err := c.post(ctx, "/verify", nil, &verdicts); err != nil {
				return err
			}
			if output == "json" {
				return errors.Join(outcome(verdicts), printJSON(io, verdicts))
			}
			return errors.Join(outcome(verdicts), printVerdicts(io, verdicts), printMismatches(io, verdicts))
		},
	}
}

// errIncomplete is the outcome of a verify that found nothing, but not everywhere.
var errIncomplete = errors.New("not every target could be compared")

func printJSON(io streams, v any) error {
	e := json.NewEncoder(io.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func sinkOutcome(v *admin.SinkVerdict) error {
	switch {
	case v.Divergences > 0:
		return fmt.Errorf("the destination of sink %s holds other states than informd has announced; "+
			"announce the objects to it again: informd resnapshot --resource <resource> --sink %s", visible(v.Sink), visible(v.Sink))
	case v.Error != "":
		return errIncomplete
	}
	return nil
}

func printSinkVerdict(io streams, v *admin.SinkVerdict) error {
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SINK\tOBJECTS\tDIVERGENCES\tERROR")
	fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", visible(v.Sink), v.Objects, v.Divergences, visible(v.Error))
	for i, d := range v.Examples {
		if i == 0 {
			fmt.Fprintln(table, "\nOBJECT\tPROBLEM\tSINK HOLDS\tANNOUNCED")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", visible(d.Object), visible(d.Problem), heldState(d.Held), heldState(d.Announced))
	}
	if more := v.Divergences - len(v.Examples); more > 0 {
		fmt.Fprintf(table, "\n%d more objects differ.\n", more)
	}
	if v.Note != "" {
		fmt.Fprintf(table, "\n%s\n", visible(v.Note))
	}
	return table.Flush()
}

// heldState is how a state in a sink is shown: by uid and revision, and what else there is.
func heldState(s *admin.ObjectState) string {
	if s == nil {
		return "none"
	}
	text := fmt.Sprintf("%s:%d", visible(s.UID), s.ResourceVersion)
	if s.Epoch > 0 {
		text += fmt.Sprintf(", epoch %d", s.Epoch)
	}
	if s.Deleted {
		text += ", deleted"
	}
	return text
}

// outcome is that of a comparison with the cluster.
func outcome(verdicts []admin.Verdict) (found error) {
	for _, v := range verdicts {
		switch {
		case v.Divergences > 0 || len(v.Mismatches) > 0:
			return errDiverged
		case v.Error != "":
			found = errIncomplete
		}
	}
	return found
}

func printVerdicts(io streams, verdicts []admin.Verdict) error {
	table := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TARGET\tOBJECTS\tDIVERGENCES\tERROR")
	for _, v := range verdicts {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", visible(v.Target), v.Objects, v.Divergences, visible(v.Error))
	}
	return table.Flush()
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
