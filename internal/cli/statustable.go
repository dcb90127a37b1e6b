package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/pkg/dynwatch"
)

// printStatus renders a status for people: what informd it is, whether it works by
// the config as it is now, and a table each of the targets, the sinks and the journal. Ages are as of now.
func printStatus(out io.Writer, s *admin.Status, now time.Time) error {
	fmt.Fprintf(out, "informd %s, cluster %s, up %s\n", visible(s.Version), visible(s.Cluster), age(seconds(s.UptimeSeconds)))
	if c := s.Config; c != nil && c.Successful {
		fmt.Fprintf(out, "config %s, read %s ago\n", visible(c.Path), since(&c.LastSuccess, now))
	} else if c != nil {
		fmt.Fprintf(out, "config %s, read %s ago; REFUSED %s ago: %s\n",
			visible(c.Path), since(&c.LastSuccess, now), since(&c.LastReload, now), shortened(c.Error))
	}
	switch {
	case s.StandbyFor != "":
		fmt.Fprintf(out, "on standby: informd %s writes to the journal; this one takes over when that is gone\n", visible(s.StandbyFor))
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

// permissionsMissing is below the table of targets if one of them is forbidden.
const permissionsMissing = "\nPermissions are missing: apply what `informd rbac` prints for the config.\n"

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
			reason = shortened(t.Reason)
		} else if t.BlockedSince != nil && now.Sub(*t.BlockedSince) >= time.Second {
			reason = "waits for the journal since " + age(now.Sub(*t.BlockedSince))
		}
		rows = append(rows, []string{
			t.Target, t.Version, t.Mode, t.State, strconv.Itoa(t.Objects), perSecond(t.EventsPerSecond), since(t.LastProgress, now), reason,
		})
	}
	return rows
}

func sinkRows(sinks []admin.Sink, letters map[string]uint64, now time.Time) [][]string {
	rows := [][]string{{"SINK", "TYPE", "STATE", "LAG", "BEHIND", "DELIVERED", "RETRIES", "DEAD LETTERS", "LAST ERROR"}}
	for i := range sinks {
		s := &sinks[i]
		rows = append(rows, []string{
			s.Name, s.Type, s.State, count(s.LagEvents), age(seconds(s.LagSeconds)), count(s.Delivered), count(s.Retries), count(letters[s.Name]),
			lastError(s, now),
		})
	}
	return rows
}

// letterRows are the dead-letter queues of the source and of sinks that left the config.
func letterRows(sinks []admin.Sink, letters map[string]uint64) [][]string {
	rows := [][]string{{"OTHER QUEUE", "DEAD LETTERS"}}
	for _, name := range slices.Sorted(maps.Keys(letters)) {
		if !slices.ContainsFunc(sinks, func(s admin.Sink) bool { return s.Name == name }) {
			rows = append(rows, []string{name, count(letters[name])})
		}
	}
	return rows
}

func pendingRows(sinks []admin.Sink) [][]string {
	rows := [][]string{{"SINK", "PENDING RE-SNAPSHOT", "RUN"}}
	for i := range sinks {
		for _, p := range sinks[i].Resnapshots {
			rows = append(rows, []string{sinks[i].Name, p.Resource, strconv.FormatUint(p.Run, 10)})
		}
	}
	return rows
}

// lastError has its age: it may be long over.
func lastError(s *admin.Sink, now time.Time) string {
	text := shortened(s.LastError)
	if text != "" && s.LastErrorAt != nil {
		text += " (" + since(s.LastErrorAt, now) + " ago)"
	}
	return text
}

func journalRows(j *admin.Journal) [][]string {
	return [][]string{
		{"JOURNAL", "EVENTS", "SIZE", "CAPACITY", "BLOCKED TARGETS", "PROBLEM"},
		{j.Type, count(j.Events), size(j.Bytes), size(j.Capacity), strconv.Itoa(j.Blocked), shortened(j.Problem)},
	}
}

// printTable aligns rows below an empty line; one with a head alone is left out. An
// empty cell becomes "-", and whatever was put in, nothing leaves its line.
func printTable(out io.Writer, rows [][]string) error {
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = cmp.Or(visible(cell), "-")
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

// visible makes one line of a text that somebody else has written: white space
// becomes a blank, and what would act on a terminal instead of showing (control
// characters, bidirectional marks, bytes that are not UTF-8) is escaped as in Go.
func visible(s string) string {
	quoted := strconv.Quote(strings.Join(strings.Fields(s), " "))
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// shortened is visible for a text that may be long. It leaves out the middle: an
// error begins with what was tried and ends with the cause.
func shortened(s string) string {
	const most = 120 // characters
	runes := []rune(visible(s))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-most/2+1:])
}

func since(t *time.Time, now time.Time) string {
	if t == nil {
		return ""
	}
	return age(now.Sub(*t))
}

// age is a duration as kubectl shows it. informd's clock may be ahead of ours.
func age(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// seconds are a duration, at most as many as one can hold.
func seconds(s float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(s, most)) * time.Second
}

// number is a number of things, in the singular if there is one.
func number[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

// perSecond has as many digits as tell something.
func perSecond(x float64) string {
	switch {
	case x < 0.005:
		return "0"
	case x < 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	default:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
}

// size is a number of bytes in the unit that suits it.
func size(n uint64) string {
	const step = 1024
	if n < step {
		return count(n) + "B"
	}
	x, units := float64(n)/step, []string{"KiB", "MiB", "GiB", "TiB"}
	for x >= step && len(units) > 1 {
		x, units = x/step, units[1:]
	}
	digits := 0
	if x < 10 {
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + units[0]
}
