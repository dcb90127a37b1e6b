package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch"
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
	return std.asking(cmd, nil, func(ctx context.Context, c client, output *format, _ []string) error {
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

// printStatus renders a status for people: what informd it is, whether it works by
// the config as it is now, and a table each of the targets, the sinks and the journal. Ages are as of now.
func printStatus(out io.Writer, s *admin.Status, now time.Time) error {
	fmt.Fprintf(out, "informd %s, cluster %s, up %s\n", visible(s.Version), visible(s.Cluster), age(seconds(s.UptimeSeconds)))
	if c := s.Config; c != nil && c.Successful {
		fmt.Fprintf(out, "config %s, read %s ago\n", visible(c.Path), since(c.LastSuccess, now))
	} else if c != nil {
		mistakes := visible(strings.ReplaceAll(c.Error, "\n", "; "))
		fmt.Fprintf(out, "config %s, read %s ago; REFUSED %s ago: %s\n",
			visible(c.Path), since(c.LastSuccess, now), since(c.LastReload, now), mistakes)
	}
	switch {
	case s.Follower != nil && s.Follower.Leader == "":
		fmt.Fprintln(out, "a replica: nobody leads, and this informd waits for the lease")
	case s.Follower != nil:
		state := "in sync, so a takeover loses nothing"
		if !s.Follower.InSync {
			state = "not in sync yet"
		}
		fmt.Fprintf(out, "a replica: it copies the log of %s, and is %s\n", visible(s.Follower.Leader), state)
	case len(s.Targets) == 0:
		fmt.Fprintln(out, "nothing is watched: informd is starting or stopping")
	}
	if len(s.Targets) >= manyTargets {
		fmt.Fprintf(out, "%d targets: %s\n", len(s.Targets), counted(s.TargetStates))
	}
	targets := printTable(out, targetRows(s.Targets, now))
	if slices.ContainsFunc(s.Targets, func(t admin.Target) bool { return t.State == string(dynwatch.Forbidden) }) {
		fmt.Fprint(out, permissionsMissing)
	}
	return errors.Join(
		targets,
		printTable(out, sinkRows(s.Sinks, s.DeadLetters, now)),
		printTable(out, letterRows(s.Sinks, s.DeadLetters)),
		printTable(out, pendingRows(s.Sinks)),
		printTable(out, journalRows(&s.Journal)),
	)
}

// manyTargets is how many targets are too many to count in a table.
const manyTargets = 20

// counted lists how many targets are in each state, the most common state first.
func counted(states map[string]int) string {
	names := slices.SortedFunc(maps.Keys(states), func(a, b string) int {
		return cmp.Or(cmp.Compare(states[b], states[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", states[name], visible(name))
	}
	return strings.Join(names, ", ")
}

func targetRows(targets []admin.Target, now time.Time) [][]string {
	rows := [][]string{{"TARGET", "VERSION", "MODE", "STATE", "OBJECTS", "EVENTS/S", "PROGRESS", "REASON"}}
	for i := range targets {
		t := &targets[i]
		reason := ""
		if t.State != string(dynwatch.Live) {
			reason = t.Reason
		} else if !t.BlockedSince.IsZero() && now.Sub(t.BlockedSince) >= time.Second {
			reason = "waits for the journal since " + age(now.Sub(t.BlockedSince))
		}
		rows = append(rows, []string{
			t.Target, t.Version, t.Mode, t.State, strconv.Itoa(t.Objects), perSecond(t.EventsPerSecond), since(t.LastProgress, now), reason,
		})
	}
	return rows
}

func sinkRows(sinks []deliver.Status, letters map[string]uint64, now time.Time) [][]string {
	rows := [][]string{{"SINK", "TYPE", "STATE", "LAG", "BEHIND", "DELIVERED", "RETRIES", "DEAD LETTERS", "LAST ERROR"}}
	for i := range sinks {
		s := &sinks[i]
		rows = append(rows, []string{
			s.Name, s.Type, string(s.State), count(s.LagEvents), age(seconds(s.LagSeconds)), count(s.Delivered), count(s.Retries), count(letters[s.Name]),
			lastError(s, now),
		})
	}
	return rows
}

// letterRows are the dead-letter queues of the source and of sinks that left the config.
func letterRows(sinks []deliver.Status, letters map[string]uint64) [][]string {
	rows := [][]string{{"OTHER QUEUE", "DEAD LETTERS"}}
	for _, name := range slices.Sorted(maps.Keys(letters)) {
		if !slices.ContainsFunc(sinks, func(s deliver.Status) bool { return s.Name == name }) {
			rows = append(rows, []string{name, count(letters[name])})
		}
	}
	return rows
}

func pendingRows(sinks []deliver.Status) [][]string {
	rows := [][]string{{"SINK", "PENDING RE-SNAPSHOT", "RUN"}}
	for i := range sinks {
		for _, p := range sinks[i].Resnapshots {
			rows = append(rows, []string{sinks[i].Name, p.Resource, count(p.Run)})
		}
	}
	return rows
}

// lastError is the last error with its age, "" if the sink has delivered since: it is over then.
func lastError(s *deliver.Status, now time.Time) string {
	text := s.LastError
	if s.State == deliver.Running && s.LastSuccess.After(s.LastErrorAt) {
		text = ""
	}
	if text != "" && !s.LastErrorAt.IsZero() {
		text += " (" + since(s.LastErrorAt, now) + " ago)"
	}
	return text
}

func journalRows(j *admin.Journal) [][]string {
	return [][]string{
		{"JOURNAL", "EVENTS", "SIZE", "CAPACITY", "BLOCKED TARGETS", "PROBLEM"},
		{j.Type, count(j.Events), size(j.Bytes), size(j.Capacity), strconv.Itoa(j.Blocked), j.Problem},
	}
}
