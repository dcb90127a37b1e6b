package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
)

// errEnded is the end of a tail by informd without a reason, as when it stops.
var errEnded = errors.New("informd ended the tail: it stops, or the connection broke")

// followTail reads server-sent events. It calls show with each event as JSON, and note with what
// else informd reports. It returns when the tail ends.
func followTail(body io.Reader, show func(text []byte) error, note func(string)) error {
	lines := bufio.NewReader(body)
	kind := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return errEnded
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			kind = string(name)
			continue
		}
		text, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		if kind == "" {
			if err := show(text); err != nil {
				return err
			}
			continue
		}
		if err := reportTail(kind, text, note); err != nil {
			return err
		}
		kind = ""
	}
}

// reportTail is a message that is no event.
func reportTail(kind string, text []byte, note func(string)) error {
	var said struct {
		Events uint64
		Reason string
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("read the tail: %w", err)
	}
	switch kind {
	case "failed":
		note(fmt.Sprintf("the condition failed for %s so far; they are not shown", number(said.Events, "event", "events")))
	case "end":
		return fmt.Errorf("informd ended the tail: %s", said.Reason)
	}
	return nil
}

// tailJSON writes each event as a line.
func tailJSON(out io.Writer) func(text []byte) error {
	return func(text []byte) error {
		_, err := out.Write(append(display.JSON(text), '\n'))
		return err
	}
}

const (
	// maxKept bounds the objects that are kept for their next change, in bytes.
	maxKept = 32 << 20
	// maxPaths bounds the paths that an event shows.
	maxPaths = 6
)

// tailText writes events for people.
type tailText struct {
	out     io.Writer
	colored bool
	// last are the objects as last seen, by UID.
	last map[string][]byte
	kept int
}

// newTailText returns what writes to out.
func newTailText(out io.Writer, colored bool) *tailText {
	return &tailText{out: out, colored: colored, last: make(map[string][]byte)}
}

// Event writes an event, one line and one for each change.
func (t *tailText) Event(text []byte) error {
	e, err := event.ParseJSON(text)
	if err != nil {
		return fmt.Errorf("read the tail: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", e.Time.Local().Format(time.TimeOnly), paint(t.colored, colorOf(e.Op), fmt.Sprintf("%-8s", e.Op)), visible(aboutEvent(&e)))
	switch {
	case e.Op == event.Gap && e.Gap != nil:
		fmt.Fprintf(&b, "  revisions %d to %d: %s", e.Gap.From, e.Gap.To, visible(e.Gap.Reason))
	case e.ResourceVersion > 0:
		fmt.Fprintf(&b, "  %d", e.ResourceVersion)
	}
	b.WriteByte('\n')
	t.changes(&b, &e)
	_, err = io.WriteString(t.out, b.String())
	return err
}

// aboutEvent names the object, or the target of a control event.
func aboutEvent(e *event.Event) string {
	if e.Op.Control() {
		return e.Target
	}
	return objectName(e)
}

// changes writes what an event changed, if the object before is known.
func (t *tailText) changes(b *strings.Builder, e *event.Event) {
	now := e.Object()
	if e.Op.Control() || e.UID == "" {
		return
	}
	before := t.last[e.UID]
	if old := e.Member("oldObject"); old != nil {
		before = old
	}
	if before != nil && now != nil && e.Op == event.Modified {
		all := changedValues(before, now)
		for _, c := range all[:min(len(all), maxPaths)] {
			b.WriteString("    " + visible(c.Path))
			if c.From != "" {
				b.WriteString(" " + paint(t.colored, red, "- "+shortened(c.From)))
			}
			if c.To != "" {
				b.WriteString(" " + paint(t.colored, green, "+ "+shortened(c.To)))
			}
			b.WriteByte('\n')
		}
		if more := len(all) - maxPaths; more > 0 {
			fmt.Fprintf(b, "    and %d more\n", more)
		}
	}
	t.keep(e, now)
}

// keep remembers the object for its next change.
func (t *tailText) keep(e *event.Event, now []byte) {
	t.kept -= len(t.last[e.UID])
	delete(t.last, e.UID)
	if now == nil || e.Op.Ends() {
		return
	}
	for uid, old := range t.last { // any one; its next change shows without values
		if t.kept+len(now) <= maxKept {
			break
		}
		t.kept -= len(old)
		delete(t.last, uid)
	}
	t.last[e.UID] = bytes.Clone(now)
	t.kept += len(now)
}

// The colors of a terminal (ECMA-48).
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	gray   = "90"
)

func colorOf(op event.Op) string {
	switch op {
	case event.Added, event.Entered:
		return green
	case event.Deleted, event.Left, event.Gap:
		return red
	case event.Modified:
		return yellow
	default:
		return gray
	}
}
