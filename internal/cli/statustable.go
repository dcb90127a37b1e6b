package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/dynwatch"
)

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
			rows = append(rows, []string{sinks[i].Name, p.Resource, strconv.FormatUint(p.Run, 10)})
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
