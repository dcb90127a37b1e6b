package past

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/informd/informd/internal/cli/internal/terminal"
	"github.com/informd/informd/pkg/event"
)

// Name names the object of an event as commands take it: pods/shop/web-1.
func Name(e *event.Event) string {
	resource := e.Resource
	if e.Group != "" {
		resource += "." + e.Group
	}
	return strings.Join(slices.DeleteFunc([]string{resource, e.Namespace, e.Name}, func(s string) bool { return s == "" }), "/")
}

// Gaps writes gap events for people, in their order.
func Gaps(out io.Writer, all []event.Event) error {
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
			e.Time.Local().Format(time.DateTime), e.Target, cmp.Or(e.GapSink(), "-"), e.Gap.Reason, lost, string(e.Gap.Recovered),
		})
	}
	return terminal.Align(out, rows)
}

// maxChanged bounds the paths in a row of the table.
const maxChanged = 4

// Table writes the events of an object for people, oldest first. Limit is the largest number of
// events that the journal keeps of it.
func Table(out io.Writer, all []event.Event, limit int) error {
	rows := [][]string{{"TIME", "OP", "REVISION", "MANAGER", "CHANGED"}}
	var before []byte
	for i := range all {
		e := &all[i]
		row := []string{e.Time.Local().Format(time.DateTime), string(e.Op), fmt.Sprint(e.ResourceVersion), manager(e), "-"}
		if now := e.Object(); now != nil {
			if changes := Values(before, now); before != nil && len(changes) > 0 {
				var paths []string
				for _, c := range changes[:min(len(changes), maxChanged)] {
					paths = append(paths, c.Path)
				}
				row[4] = strings.Join(paths, " ")
				if more := len(changes) - maxChanged; more > 0 {
					row[4] += fmt.Sprintf(" and %d more", more)
				}
			}
			before = now
		}
		rows = append(rows, row)
	}
	if err := terminal.Align(out, rows); err != nil {
		return err
	}
	if len(all) == 0 || all[0].Ordinal <= 1 {
		return nil
	}
	_, err := fmt.Fprintf(out, "older events are no longer kept: journal.historyPerObject is %d\n", limit)
	return err
}

// manager is the field manager of an event, "-" without one.
func manager(e *event.Event) string {
	var name struct{ Manager string }
	if decode(e.Member("fieldManager"), &name) != nil || name.Manager == "" {
		return "-"
	}
	return name.Manager
}

// State is an object at a moment; nil Object is none.
type State struct {
	Title  string
	Object []byte
}

func stateOf(e *event.Event) State {
	s := State{Title: fmt.Sprintf("revision %d, %s", e.ResourceVersion, e.Time.UTC().Format(time.RFC3339))}
	if !e.Op.Ends() {
		s.Object = e.Object()
	} else {
		s.Title += ", " + string(e.Op)
	}
	return s
}

// Pair returns the two states to compare: at to, the last one if it is empty; and at from, the
// one before if that is empty.
func Pair(all []event.Event, from, to string, now time.Time) (before, after State, err error) {
	find := func(text string) (*event.Event, error) {
		m, err := Parse(text, now)
		if err != nil {
			return nil, err
		}
		return At(all, m)
	}
	last := &all[len(all)-1]
	if to != "" {
		if last, err = find(to); err != nil {
			return before, after, err
		}
	}
	if from != "" {
		first, err := find(from)
		if err != nil {
			return before, after, err
		}
		return stateOf(first), stateOf(last), nil
	}
	before.Title = "nothing"
	for i := range all {
		if &all[i] == last {
			break
		}
		before = stateOf(&all[i])
	}
	if before.Object == nil && last.Op.Ends() {
		// The journal keeps only the end, which has the last state.
		before = State{Title: "the last state", Object: last.Object()}
	}
	return before, stateOf(last), nil
}

// Diff writes the difference of two states as a unified diff of their YAML.
func Diff(out io.Writer, before, after State, colored bool) error {
	a, err := lines(before.Object)
	if err != nil {
		return err
	}
	b, err := lines(after.Object)
	if err != nil {
		return err
	}
	const context = 3
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: a, B: b, FromFile: before.Title, ToFile: after.Title, Context: context})
	if err != nil {
		return err
	}
	text = cmp.Or(text, fmt.Sprintf("no difference between %s and %s\n", before.Title, after.Title))
	for line := range strings.Lines(text) {
		color := map[byte]string{'+': "32", '-': "31", '@': "36"}[line[0]]
		if _, err := fmt.Fprintln(out, terminal.Paint(colored, color, strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// Document is an object as it is printed.
func Document(object []byte) (document any, err error) {
	err = decode(object, &document)
	return document, err
}

// lines are an object as YAML, fit for a terminal.
func lines(object []byte) ([]string, error) {
	if object == nil {
		return nil, nil
	}
	document, err := Document(object)
	if err != nil {
		return nil, err
	}
	text, err := terminal.YAML(document)
	if err != nil {
		return nil, err
	}
	return difflib.SplitLines(strings.TrimSuffix(string(text), "\n")), nil
}

// ErrExists says that the object was not deleted.
var ErrExists = errors.New("it exists, as far as informd knows: informd get prints it")

// Deleted returns the event that ended the object, with its last state.
func Deleted(all []event.Event) (*event.Event, error) {
	last := &all[len(all)-1]
	if last.Op != event.Deleted {
		return nil, ErrExists
	}
	for i := len(all) - 1; i >= 0 && all[i].UID == last.UID; i-- {
		if all[i].Object() != nil {
			return &all[i], nil
		}
	}
	return last, nil
}
