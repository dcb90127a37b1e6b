package cli

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
)

func verifyCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify", Short: "compare the events that a running informd emitted with the cluster", GroupID: operateGroup,
		Long: `informd verify has a running informd list every resource, metadata only, and compare the
list with the events that it emitted. informd emits the differences at once. Resources that
the API server does not serve are skipped. It does not read the destinations: 'informd
resnapshot' delivers all objects to a sink again.`,
		Example:     "informd verify -c config.yaml\ninformd verify -o json",
		Annotations: exitCodes("0 no difference, 1 a difference, or a target that could not be compared, 2 wrong usage or config"),
		Args:        noArguments,
	}
	return std.asking(cmd, nil, func(ctx context.Context, c client, output *format, _ []string) error {
		var verdicts []admin.Verdict
		if err := c.post(ctx, "/verify", nil, &verdicts); err != nil {
			return err
		}
		return errors.Join(outcome(verdicts), output.show(std.out, verdicts, func(out io.Writer) error { return printVerdicts(out, verdicts) }))
	})
}

// outcome is the error of a comparison with the cluster that found a difference, or did not compare every target.
func outcome(verdicts []admin.Verdict) (found error) {
	for _, v := range verdicts {
		switch {
		case v.Divergences > 0:
			return errors.New("the events that informd emitted and the objects of the cluster differ; informd emits the difference now")
		case v.Error != "":
			found = errors.New("informd could not compare every target; see ERROR")
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
