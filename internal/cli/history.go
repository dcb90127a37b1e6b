package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/informd/informd/internal/change"
	"github.com/informd/informd/pkg/event"
)

// maxChanged bounds the paths in a row of the table.
const maxChanged = 4

// printHistory writes the events of an object for people, oldest first. Limit is the largest number of
// events that the journal keeps of it.
func printHistory(out io.Writer, all []event.Event, limit int) error {
	rows := [][]string{{"TIME", "OP", "REVISION", "MANAGER", "CHANGED"}}
	var before []byte
	for i := range all {
		e := &all[i]
		row := []string{shownTime(e.Time), string(e.Op), fmt.Sprint(e.ResourceVersion), managerOf(e), "-"}
		if now := e.Object(); now != nil {
			if paths := changedPaths(before, now); len(paths) > 0 {
				row[4] = strings.Join(paths[:min(len(paths), maxChanged)], " ")
				if more := len(paths) - maxChanged; more > 0 {
					row[4] += fmt.Sprintf(" and %d more", more)
				}
			}
			before = now
		}
		rows = append(rows, row)
	}
	if err := align(out, rows); err != nil {
		return err
	}
	if len(all) == 0 || all[0].Ordinal <= 1 {
		return nil
	}
	_, err := fmt.Fprintf(out, "older events are no longer kept: journal.historyPerObject is %d\n", limit)
	return err
}

// changedPaths returns where two states of an object differ, as the changed of an event has it; nothing without a
// state before. An object that is no JSON differs as a whole.
func changedPaths(before, after []byte) (paths []string) {
	if before == nil {
		return nil
	}
	whole := []string{"(object)"}
	var a, b bytes.Buffer
	if json.Compact(&a, before) != nil || json.Compact(&b, after) != nil {
		return whole
	}
	set, err := change.Of(a.Bytes(), b.Bytes())
	if err != nil || json.Unmarshal(set.AppendPaths(nil), &paths) != nil {
		return whole
	}
	return paths
}

// decodeNumbers reads JSON, with numbers as they are written.
func decodeNumbers(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("read the object: %w", err)
	}
	return nil
}

// managerOf is the field manager of an event, "-" without one.
func managerOf(e *event.Event) string {
	var name struct{ Manager string }
	if decodeNumbers(e.Member("fieldManager"), &name) != nil || name.Manager == "" {
		return "-"
	}
	return name.Manager
}

// objectState is an object at a moment; nil Object is none.
type objectState struct {
	Title  string
	Object []byte
}

func stateOf(e *event.Event) objectState {
	s := objectState{Title: fmt.Sprintf("revision %d, %s", e.ResourceVersion, shownTime(e.Time))}
	if !e.Op.Ends() {
		s.Object = e.Object()
	} else {
		s.Title += ", " + string(e.Op)
	}
	return s
}

// statePair returns the two states to compare: at to, the last one if it is empty; and at from, the
// one before if that is empty.
func statePair(all []event.Event, from, to string, now time.Time) (before, after objectState, err error) {
	find := func(text string) (*event.Event, error) {
		m, err := parseMoment(text, now)
		if err != nil {
			return nil, err
		}
		return stateAt(all, m)
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
	for i := 0; &all[i] != last; i++ {
		before = stateOf(&all[i])
	}
	if before.Object == nil && last.Op.Ends() {
		// The journal keeps only the end, which has the last state.
		before = objectState{Title: "the last state", Object: last.Object()}
	}
	return before, stateOf(last), nil
}

// printDiff writes the difference of two states as a unified diff of their YAML.
func printDiff(out io.Writer, before, after objectState, colored bool) error {
	a, err := yamlLines(before.Object)
	if err != nil {
		return err
	}
	b, err := yamlLines(after.Object)
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
		if _, err := fmt.Fprintln(out, paint(colored, color, strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// documentOf is an object as it is printed.
func documentOf(object []byte) (document any, err error) {
	err = decodeNumbers(object, &document)
	return document, err
}

// yamlLines are an object as YAML, fit for a terminal.
func yamlLines(object []byte) ([]string, error) {
	if object == nil {
		return nil, nil
	}
	document, err := documentOf(object)
	if err != nil {
		return nil, err
	}
	text, err := yAML(document)
	if err != nil {
		return nil, err
	}
	return difflib.SplitLines(strings.TrimSuffix(string(text), "\n")), nil
}

// deletedEvent returns the event that ended the object, with its last state.
func deletedEvent(all []event.Event) (*event.Event, error) {
	last := &all[len(all)-1]
	if last.Op != event.Deleted {
		return nil, errors.New("it exists, as far as informd knows: informd get prints it")
	}
	for i := len(all) - 1; i >= 0 && all[i].UID == last.UID; i-- {
		if all[i].Object() != nil {
			return &all[i], nil
		}
	}
	return last, nil
}
