package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/display"
)

func statusCommand(std streams) *cobra.Command {
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "show the state of a running informd", GroupID: operateGroup,
		Long: `informd status shows the targets, the sinks and the journal of a running informd.
PROGRESS is the time since the last message from the API server. BEHIND is the age of the
oldest event that the sink does not have yet.`,
		Example: `informd status -c config.yaml
informd status --server unix:///var/lib/informd/admin.sock
informd status -w --interval 10s
informd status -o json | jq '.targets[] | select(.state != "live")'`,
		Annotations: exitCodes("0 ok, 1 informd does not answer, 2 wrong usage or config"),
		Args:        noArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if interval <= 0 {
				return misused("--interval %s: it must be more than 0, as in 2s", interval)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the status again at every interval until Ctrl-C")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two requests of --watch")
	return std.asking(cmd, func(ctx context.Context, c client, output *format, _ []string) error {
		v := statusView{client: c, std: std, format: output, terminal: isTerminal(std.out)}
		if watch {
			return v.follow(ctx, interval)
		}
		screen, err := v.look(ctx)
		if err != nil {
			return err
		}
		_, err = std.out.Write(screen)
		return err
	})
}

// statusView shows the status of a running informd.
type statusView struct {
	client client
	std    streams
	format *format
	// terminal: what is shown takes the place of what was shown before.
	terminal bool
}

const (
	// statusTimeout bounds one request.
	statusTimeout = 10 * time.Second
	statusPath    = "/status"
)

// look returns what there is to show now.
func (v *statusView) look(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var screen bytes.Buffer
	err := v.client.do(ctx, http.MethodGet, statusPath, nil, func(body io.Reader) error {
		text, err := io.ReadAll(body)
		if err != nil {
			return fmt.Errorf("read the status: %w", err)
		}
		var s admin.Status
		if v.format.value == formatJSON { // keys of a later version included
			_, err := screen.Write(display.JSON(text))
			return err
		}
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("read the status: %w", err)
		}
		return v.format.show(&screen, shown{
			document: &s, names: statusNames(&s),
			table: func(out io.Writer) error { return printStatus(out, &s, time.Now()) },
		})
	})
	return screen.Bytes(), err
}

// statusNames names the targets and the sinks.
func statusNames(s *admin.Status) (names []string) {
	for i := range s.Targets {
		names = append(names, "target/"+s.Targets[i].Target)
	}
	for i := range s.Sinks {
		names = append(names, "sink/"+s.Sinks[i].Name)
	}
	return names
}

// follow shows the status at every interval, until an interrupt. If informd cannot
// be asked at the first time, that is an error; later it is waited for.
func (v *statusView) follow(ctx context.Context, interval time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	shown, away := false, false
	for {
		screen, err := v.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !shown:
			return err
		case err != nil && !away:
			// Below what was shown last, which stays. Once: the next one says no more.
			fmt.Fprintf(v.std.err, "%s informd does not answer; informd status asks again every %s: %s\n",
				time.Now().Format(time.TimeOnly), interval, visible(err.Error()))
			away = true
		case err == nil:
			if err := v.show(screen, shown); err != nil {
				return err
			}
			shown, away = true, false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// clearScreen empties a terminal and goes to its upper left corner.
const clearScreen = "\x1b[2J\x1b[H"

// show writes a screen, in one piece so that a terminal does not flicker.
func (v *statusView) show(screen []byte, again bool) error {
	switch {
	case v.terminal:
		screen = append([]byte(clearScreen), screen...)
	case again && v.format.value != formatJSON:
		screen = append([]byte("---\n"), screen...)
	}
	_, err := v.std.out.Write(screen)
	return err
}

// isTerminal reports whether out is a terminal that can be cleared.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}
