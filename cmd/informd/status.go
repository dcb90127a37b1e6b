package main

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

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

func statusCommand() command {
	return command{
		name: "status", summary: "show what a running informd watches and delivers, and what holds it up",
		long: `It asks the informd that runs with this config, through admin.socket or admin.listen, and shows a
table each of the targets, the sinks and the journal. PROGRESS is the time since the
API server last told something; BEHIND is the age of the oldest event that a sink
does not have yet.`,
		examples: `informd status -c config.yaml
informd status -w --interval 10s
informd status -o json | jq '.targets[] | select(.state != "live")'`,
		exits: "0 ok, 1 no informd answers, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.StringP("output", "o", "table", "table or json: the document of /status")
			flags.BoolP("watch", "w", false, "show it again and again until Ctrl-C")
			flags.Duration("interval", 2*time.Second, "time from one look to the next (with --watch)")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			output := flags.Lookup("output").Value.String()
			if output != "table" && output != "json" {
				return misused("--output %q: table or json", output)
			}
			interval, err := flags.GetDuration("interval")
			if err != nil {
				return misused("%v", err)
			}
			if interval <= 0 {
				return misused("--interval %s: it must be more than 0, as in 2s", interval)
			}
			watch, err := flags.GetBool("watch")
			if err != nil {
				return misused("%v", err)
			}
			c, err := newClient(ctx, flags)
			if err != nil {
				return err
			}
			v := statusView{client: c, io: io, json: output == "json", terminal: terminal(io.out)}
			if watch {
				return v.follow(ctx, interval)
			}
			screen, err := v.look(ctx)
			if err != nil {
				return err
			}
			_, err = io.out.Write(screen)
			return err
		},
	}
}

// statusView shows the status of a running informd.
type statusView struct {
	client client
	io     streams
	// json: the document is shown as it is; else tables for people.
	json bool
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
		if v.json {
			_, err := io.Copy(&screen, body)
			return err
		}
		var s admin.Status
		if err := json.NewDecoder(body).Decode(&s); err != nil {
			return fmt.Errorf("read the status: %w", err)
		}
		return printStatus(&screen, &s, time.Now())
	})
	if v.json {
		return display.JSON(screen.Bytes()), err
	}
	return screen.Bytes(), err
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
			fmt.Fprintf(v.io.err, "%s informd does not answer, asking again every %s: %s\n",
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
	case again && !v.json:
		screen = append([]byte("---\n"), screen...)
	}
	_, err := v.io.out.Write(screen)
	return err
}

// terminal reports whether out is a terminal that can be cleared.
func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
