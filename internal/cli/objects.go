package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/pkg/event"
)

const keptHistory = `The journal keeps at least the last events of each object (journal.historyPerObject, 16 by
default), and older ones until it is compacted. Once every sink has the deletion of an object,
a compaction leaves only that deletion, with the last state. A memory journal ends with its
informd. If no informd runs with this config, the command reads the journal itself, and
changes nothing in it.

The resource of an object is its plural name, with its group unless that is core:
pods/shop/web-1, deployments.apps/shop/web, nodes/a.`

// colored reports whether text for people may have colors.
func colored(out io.Writer) bool { return isTerminal(out) && os.Getenv("NO_COLOR") == "" }

func historyCommand(std streams) *cobra.Command {
	cmd := objectCommand("history", "show the kept events of an object", `informd history shows the events of an object: when informd saw each, the operation, the
revision (resourceVersion), who wrote it if the config has fieldManager, and what changed.`,
		"informd history pods/shop/web-1\ninformd history deployments.apps/shop/web -o json")
	return std.askingAbout(cmd, nil, func(output *format, found admin.History, events []event.Event) error {
		return output.show(std.out, found, func(out io.Writer) error { return printHistory(out, events, found.Limit) })
	})
}

func getCommand(std streams) *cobra.Command {
	var at string
	var moment objectMoment
	cmd := objectCommand("get", "show an object as it is or was", `informd get shows the state of an object: the last one, or that at a time or a revision
(resourceVersion).`,
		"informd get pods/shop/web-1 --at 10m\ninformd get deployments.apps/shop/web --at 12345 -o json")
	cmd.Flags().StringVar(&at, "at", "now", "the moment: how long ago as in 10m, 2026-11-20T10:00:00Z, or a revision")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if moment, err = parseMoment(at, time.Now()); err != nil {
			return misused("--at %v", err)
		}
		return nil
	}
	return std.askingAbout(cmd, []string{formatYAML, formatJSON}, func(output *format, found admin.History, events []event.Event) error {
		e, err := stateAt(events, moment)
		if err != nil {
			return fmt.Errorf("%s: %w", found.Object, err)
		}
		object := e.Object()
		switch {
		case e.Op.Ends() && at == "now":
			return fmt.Errorf("%s is gone since %s: informd undelete %[1]s prints it", found.Object, shownTime(e.Time))
		case e.Op.Ends() && e.ResourceVersion != moment.Revision:
			return fmt.Errorf("%s did not exist at %s: it is gone since %s, revision %d", found.Object, moment, shownTime(e.Time), e.ResourceVersion)
		case object == nil:
			return fmt.Errorf("%s at %s: %w", found.Object, moment, errNoObject)
		}
		document, err := documentOf(object)
		if err != nil {
			return err
		}
		return output.show(std.out, document, nil)
	})
}

func diffCommand(std streams) *cobra.Command {
	var from, to string
	cmd := objectCommand("diff", "show what changed in an object", `informd diff compares two states of an object, by default the last two. --from and --to are
revisions or times.`,
		"informd diff pods/shop/web-1\ninformd diff deployments.apps/shop/web --from 1h\ninformd diff configmaps/shop/settings --from 12300 --to 12345")
	cmd.Flags().StringVar(&from, "from", "", "the earlier state (default: the state before --to)")
	cmd.Flags().StringVar(&to, "to", "", "the later state (default: the last one)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		for _, flag := range [][2]string{{"from", from}, {"to", to}} {
			if _, err := parseMoment(flag[1], time.Now()); flag[1] != "" && err != nil {
				return misused("--%s %v", flag[0], err)
			}
		}
		return nil
	}
	return std.askingAbout(cmd, []string{formatText}, func(_ *format, found admin.History, events []event.Event) error {
		before, after, err := statePair(events, from, to, time.Now())
		if err != nil {
			return fmt.Errorf("%s: %w", found.Object, err)
		}
		return printDiff(std.out, before, after, colored(std.out))
	})
}

func undeleteCommand(std streams) *cobra.Command {
	cmd := objectCommand("undelete", "print the manifest of a deleted object", `informd undelete prints the last state of a deleted object as a manifest for kubectl apply,
without what the API server and controllers set: uid, resourceVersion, status, owner
references and others. Comments say what is missing, for example values that informd
redacted. It changes nothing.`,
		"informd undelete configmaps/shop/settings\ninformd undelete deployments.apps/shop/web | kubectl apply -f -")
	return std.askingAbout(cmd, []string{formatYAML, formatJSON}, func(output *format, found admin.History, events []event.Event) error {
		e, err := deletedEvent(events)
		if err != nil {
			return fmt.Errorf("%s: %w", found.Object, err)
		}
		manifest, notes, err := manifestOf(e.Object())
		if err != nil {
			return fmt.Errorf("%s: %w", found.Object, err)
		}
		out := std.out
		if output.value == formatJSON {
			out = std.err // JSON has no comments
		}
		for _, note := range notes {
			fmt.Fprintf(out, "# %s\n", visible(note))
		}
		return output.show(std.out, manifest, nil)
	})
}

// objectCommand is a command about one object of the journal.
func objectCommand(name, short, long, example string) *cobra.Command {
	return &cobra.Command{
		Use: name + " <resource>/[<namespace>/]<name>", Short: short, GroupID: objectGroup,
		Long: long + "\n\n" + keptHistory, Example: example,
		Annotations: exitCodes("0 ok, 1 failure or not in the journal, 2 wrong usage or config"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !strings.Contains(args[0], "/") {
				return misused("%s needs one object, as in informd %[1]s pods/shop/web-1", cmd.Name())
			}
			if _, _, _, _, err := config.ParseObjectName(args[0]); err != nil {
				return misused("%v", err)
			}
			return nil
		},
	}
}

// askingAbout completes a command about one object: run gets its events from the running informd, or if none
// runs, from the journal of the config.
func (std streams) askingAbout(cmd *cobra.Command, formats []string, run func(output *format, found admin.History, events []event.Event) error) *cobra.Command {
	return std.asking(cmd, formats, func(ctx context.Context, c client, output *format, args []string) error {
		object := args[0]
		found, err := past(ctx, std, cmd, c, "/history", url.Values{"object": {object}}, func(ctx context.Context, own *config.Config) (admin.History, error) {
			return daemon.ReadHistory(ctx, own, object)
		})
		if err != nil {
			return err
		}
		if len(found.Events) == 0 {
			return unknownObject(cmp.Or(found.Object, object))
		}
		events, err := parseEvents(found.Events)
		if err != nil {
			return err
		}
		return run(output, found, events)
	})
}

// parseEvents returns events of the journal.
func parseEvents(texts []json.RawMessage) ([]event.Event, error) {
	events := make([]event.Event, len(texts))
	for i, text := range texts {
		var err error
		if events[i], err = event.ParseJSON(text); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// past asks the running informd for what its journal has. If none runs, read uses the journal of the config.
func past[T any](ctx context.Context, std streams, cmd *cobra.Command, c client, path string, query url.Values,
	read func(context.Context, *config.Config) (T, error),
) (found T, err error) {
	away := c.do(ctx, http.MethodGet, path, query, func(body io.Reader) error { return json.NewDecoder(body).Decode(&found) })
	if !errors.Is(away, errNotRunning) || cmd.Flags().Changed("server") {
		return found, away
	}
	own, err := std.loadConfig(cmd.Flags())
	if err != nil {
		return found, fmt.Errorf("%w\nthe journal is not read, as the config is not valid here:\n%v", away, err) //nolint:errorlint // as text
	}
	if found, err = read(ctx, own); err == nil || errors.Is(err, admin.ErrUnknown) {
		return found, err
	}
	return found, errors.Join(away, fmt.Errorf("read the journal: %w", err))
}
