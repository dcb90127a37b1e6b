package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/display"
)

func statusCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "show the state of a running informd", GroupID: operateGroup,
		Long: `informd status shows the targets, the sinks and the journal of a running informd.
PROGRESS is the time since the last message from the API server. BEHIND is the age of the
oldest event that the sink does not have yet.`,
		Example: `informd status -c config.yaml
informd status --server unix:///var/lib/informd/admin.sock
informd status -o json | jq '.targets[] | select(.state != "live")'`,
		Annotations: exitCodes("0 ok, 1 informd does not answer, 2 wrong usage or config"),
		Args:        noArguments,
	}
	return std.asking(cmd, func(ctx context.Context, c client, output *format, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		return c.do(ctx, http.MethodGet, statusPath, nil, func(body io.Reader) error {
			text, err := io.ReadAll(body)
			if err != nil {
				return fmt.Errorf("read the status: %w", err)
			}
			if output.value == formatJSON { // keys of a later version included
				_, err := std.out.Write(display.JSON(text))
				return err
			}
			var s admin.Status
			if err := json.Unmarshal(text, &s); err != nil {
				return fmt.Errorf("read the status: %w", err)
			}
			return output.show(std.out, &s, func(out io.Writer) error { return printStatus(out, &s, time.Now()) })
		})
	})
}

const (
	// statusTimeout bounds a request for the status.
	statusTimeout = 10 * time.Second
	statusPath    = "/status"
)

// isTerminal reports whether out is a terminal with colors.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
