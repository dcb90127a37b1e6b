package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/pkg/event"
)

func gapsCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "gaps", Short: "show where history was lost", GroupID: objectGroup,
		Long: `informd gaps shows the gap events of the past: when, of which target or for which sink, the
reason, and the range of revisions. The journal keeps the last of each target
(journal.historyPerObject, 16 by default) and the last 16 for each sink. docs/events.md
explains the reasons. If no informd runs with this config, the command reads the journal
itself, and changes nothing in it.`,
		Example:     "informd gaps\ninformd gaps -o json",
		Annotations: exitCodes("0 ok, also without a gap, 1 failure, 2 wrong usage or config"),
		Args:        noArguments,
	}
	return std.asking(cmd, nil, func(ctx context.Context, c client, output *format, _ []string) error {
		found, err := past(ctx, std, cmd, c, "/gaps", nil, daemon.ReadGaps)
		if err != nil {
			return err
		}
		gaps, err := parseEvents(found.Events)
		if err != nil {
			return err
		}
		return output.show(std.out, found, func(out io.Writer) error { return printGaps(out, gaps) })
	})
}

// printGaps writes gap events for people, in their order.
func printGaps(out io.Writer, all []event.Event) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no gaps")
		return err
	}
	rows := [][]string{{"TIME", "TARGET", "SINK", "REASON", "LOST", "RECOVERED"}}
	for i := range all {
		e := &all[i]
		lost := fmt.Sprintf("(%d,%d]", e.Gap.From, e.Gap.To)
		switch {
		case e.Gap.Trimmed > 0:
			lost = fmt.Sprintf("%d events", e.Gap.Trimmed)
		case e.GapSink() != "":
			lost = "-"
		}
		rows = append(rows, []string{
			shownTime(e.Time), e.Target, cmp.Or(e.GapSink(), "-"), e.Gap.Reason, lost, string(e.Gap.Recovered),
		})
	}
	return align(out, rows)
}
