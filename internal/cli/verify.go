package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
)

// errDiverged is the outcome of a comparison with the cluster that found differences.
var errDiverged = errors.New("the events that informd emitted and the objects of the cluster differ; informd emits the difference now")

// errIncomplete is the outcome of a comparison that found no difference, but not everywhere.
var errIncomplete = errors.New("informd could not compare every target; see ERROR")

func verifyCommand(std streams) *cobra.Command {
	var sink string
	cmd := &cobra.Command{
		Use: "verify", Short: "compare the events that a running informd emitted with the cluster", GroupID: operateGroup,
		Long: `informd verify has a running informd list every resource, metadata only, and compare the
list with the events that it emitted. informd emits the differences at once. Resources that
the API server does not serve are skipped.

With --sink, informd reads the last event of each object in the destination of this sink,
and compares it with the events that it emitted. The sink must be a postgres sink, or a
nats sink with jetstream: true. The output names up to 20 objects with their uid and
resourceVersion. If the destination lacks objects or holds older states, run
informd resnapshot <resource> --sink <sink>. The last event of an object that does not
exist stays in the stream: consumers remove the object at the synced event of the
re-snapshot, and nats stream purge --subject removes the event.`,
		Example:     "informd verify -c config.yaml\ninformd verify --sink bus\ninformd verify --sink bus -o json",
		Annotations: exitCodes("0 no difference, 1 a difference, or a target that could not be compared, 2 wrong usage or config"),
		Args:        noArguments,
	}
	std.sinkFlag(cmd, &sink, "name of the sink whose destination is compared (default: the cluster is compared)")
	return std.asking(cmd, func(ctx context.Context, c client, output *format, _ []string) error {
		if sink != "" {
			var verdict admin.SinkVerdict
			if err := c.post(ctx, "/verify", url.Values{"sink": {sink}}, &verdict); err != nil {
				return err
			}
			return errors.Join(sinkOutcome(&verdict), output.show(std.out, &verdict, func(out io.Writer) error { return printSinkVerdict(out, &verdict) }))
		}
		var verdicts []admin.Verdict
		if err := c.post(ctx, "/verify", nil, &verdicts); err != nil {
			return err
		}
		return errors.Join(outcome(verdicts), output.show(std.out, verdicts, func(out io.Writer) error { return printVerdicts(out, verdicts) }))
	})
}

func sinkOutcome(v *admin.SinkVerdict) error {
	switch {
	case v.Divergences > 0:
		return fmt.Errorf("the destination of sink %s differs from the events that informd emitted; "+
			"deliver the objects again: informd resnapshot <resource> --sink %s", visible(v.Sink), visible(v.Sink))
	case v.Error != "":
		return errIncomplete
	}
	return nil
}

func printSinkVerdict(out io.Writer, v *admin.SinkVerdict) error {
	rows := [][]string{{"OBJECT", "PROBLEM", "SINK HOLDS", "EMITTED"}}
	for _, d := range v.Examples {
		rows = append(rows, []string{d.Object, d.Problem, heldState(d.Held), heldState(d.Announced)})
	}
	err := errors.Join(align(out, [][]string{
		{"SINK", "OBJECTS IN SINK", "DIVERGENCES", "ERROR"},
		{v.Sink, strconv.Itoa(v.Objects), strconv.Itoa(v.Divergences), v.Error},
	}), printTable(out, rows))
	if more := v.Divergences - len(v.Examples); more > 0 {
		fmt.Fprintf(out, "\n%s.\n", number(more, "more object differs", "more objects differ"))
	}
	if v.Note != "" {
		fmt.Fprintf(out, "\n%s\n", visible(v.Note))
	}
	return err
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
		case v.Divergences > 0:
			return errDiverged
		case v.Error != "":
			found = errIncomplete
		}
	}
	return found
}

func printVerdicts(out io.Writer, verdicts []admin.Verdict) error {
	rows := [][]string{{"TARGET", "OBJECTS", "DIVERGENCES", "ERROR"}}
	for _, v := range verdicts {
		problem := v.Error
		if problem == "" && v.Skipped != "" {
			problem = "skipped: " + v.Skipped // informd did not compare the target, which is no error
		}
		rows = append(rows, []string{v.Target, strconv.Itoa(v.Objects), strconv.Itoa(v.Divergences), problem})
	}
	return align(out, rows)
}
