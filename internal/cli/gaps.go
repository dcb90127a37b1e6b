package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
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
		Args:        cobra.NoArgs,
	}
	return std.askingIn(cmd, nil, func(ctx context.Context, c client, output *format, _ []string) error {
		found := admin.Gaps{Events: []json.RawMessage{}}
		err := c.do(ctx, http.MethodGet, "/gaps", nil, func(body io.Reader) error {
			return json.NewDecoder(body).Decode(&found)
		})
		if errors.Is(err, errNotRunning) && !cmd.Flags().Changed("server") {
			err = std.readJournal(cmd, err, func(c *config.Config) (err error) {
				found, err = daemon.ReadGaps(ctx, c)
				escape(found.Events)
				return err
			})
		}
		if err != nil {
			return err
		}
		s := shown{document: found}
		gaps := make([]event.Event, len(found.Events))
		for i, text := range found.Events {
			if gaps[i], err = event.ParseJSON(text); err != nil {
				return err
			}
			s.names = append(s.names, gaps[i].ID)
		}
		s.table = func(out io.Writer) error { return printGaps(out, gaps) }
		return output.show(std.out, s)
	})
}
