package stdout

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/informd/informd/pkg/event"
)

// The SGR parameters of the colours, all of the basic palette so that they
// follow the terminal's own theme.
const (
	plain      = ""
	bold       = "1"
	dim        = "2"
	red        = "31"
	green      = "32"
	yellow     = "33"
	cyan       = "36"
	boldCyan   = "1;36"
	boldYellow = "1;33;7" // reversed: a gap must not be overlooked
)

const timeOfDay = "15:04:05.000"

// pretty renders events for people. The columns grow with what they have to
// hold, up to a limit; a longer text moves the rest of its own line only and is
// never cut, so that names can be copied.
type pretty struct {
	colour   bool
	zone     *time.Location
	resource column
	object   column
	revision column
}

type column struct{ width, limit int }

func newPretty(colour bool, zone *time.Location) *pretty {
	return &pretty{
		colour: colour, zone: zone,
		resource: column{width: len("deployments.apps"), limit: 40},
		object:   column{width: 32, limit: 60},
		revision: column{width: len("1000→1000"), limit: 24},
	}
}

// render appends the event's line to dst.
func (p *pretty) render(dst []byte, e *event.Event) []byte {
	dst = p.paint(dst, dim, e.Time.In(p.zone).Format(timeOfDay))
	dst = append(dst, ' ')
	if e.Op.Control() {
		dst = p.control(dst, e)
	} else {
		dst = p.line(dst, e)
	}
	return append(dst, '\n')
}

// control renders what is about a target: it stands out between the objects.
func (p *pretty) control(dst []byte, e *event.Event) []byte {
	if e.Op == event.State {
		state, reason := e.TargetState()
		text := visible(e.Target) + " is " + visible(state)
		if reason != "" {
			text += ": " + visible(reason)
		}
		return p.paint(dst, boldCyan, "── "+text+" ──")
	}
	if e.Gap == nil {
		text := string(e.Op) + " " + visible(e.Target) + " at " + strconv.FormatUint(e.ResourceVersion, 10)
		return p.paint(dst, boldCyan, "── "+text+" ──")
	}
	if e.Gap.Trimmed > 0 {
		return p.paint(dst, boldYellow, "── gap: "+strconv.FormatUint(e.Gap.Trimmed, 10)+" events were trimmed from the journal before they were delivered ──")
	}
	text := string(e.Op) + " " + visible(e.Target) + " after " + strconv.FormatUint(e.Gap.From, 10) +
		" up to " + strconv.FormatUint(e.Gap.To, 10) + ": " + visible(e.Gap.Reason) + ", " + recovered(e.Gap.Recovered)
	return p.paint(dst, boldYellow, "── "+text+" ──")
}

func recovered(r event.Recovered) string {
	switch r {
	case event.RecoveredKnown:
		return "all recovered but what was born and died inside"
	case event.RecoveredPartial:
		return "recovered in part"
	case event.RecoveredState:
		return "states recovered, not what led to them"
	default:
		return visible(string(r))
	}
}

func (p *pretty) line(dst []byte, e *event.Event) []byte {
	dst = p.cell(dst, &column{width: len("modified")}, colourOf(e.Op), string(e.Op))

	resource := visible(e.Resource)
	if e.Group != "" {
		resource += "." + visible(e.Group)
	}
	dst = p.cell(dst, &p.resource, plain, resource)

	name := visible(e.Name)
	if e.Namespace != "" {
		name = visible(e.Namespace) + "/" + name
	}
	dst = p.cell(dst, &p.object, bold, name)

	revision := strconv.FormatUint(e.ResourceVersion, 10)
	if e.PrevResourceVersion != 0 {
		revision = strconv.FormatUint(e.PrevResourceVersion, 10) + "→" + revision
	}
	text := notes(e)
	if text == "" {
		return p.paint(dst, dim, revision) // nothing follows: no blanks at the end
	}
	dst = p.cell(dst, &p.revision, dim, revision)
	return append(dst, visible(text)...)
}

// notes says what is special about the event and how the object is.
func notes(e *event.Event) string {
	var words []string
	switch object := e.Object(); {
	case e.Op == event.Deleted && object == nil:
		words = append(words, "last state unknown")
	case e.Op == event.Deleted:
		if bytes.HasSuffix(e.Data, []byte(`"final":false}`)) {
			words = append(words, "last state not certain")
		}
	default:
		if s := summary(object); s != "" {
			words = append(words, s)
		}
	}
	if s := changed(e); s != "" {
		words = append(words, s)
	}
	switch {
	case e.Reannounced() || e.Redelivered:
		words = append(words, "(again)")
	case e.Replay:
		words = append(words, "(found later)")
	}
	return strings.Join(words, " ")
}

// maxChanged is how many changed paths are shown.
const maxChanged = 8

// changed says what has changed, if the event does.
func changed(e *event.Event) string {
	var paths []string
	if json.Unmarshal(e.Member(event.MemberChanged), &paths) != nil || len(paths) == 0 {
		return ""
	}
	more := ""
	if n := len(paths) - maxChanged; n > 0 {
		paths, more = paths[:maxChanged], " and "+strconv.Itoa(n)+" more"
	}
	return "(changed " + strings.Join(paths, ", ") + more + ")"
}

func colourOf(op event.Op) string {
	switch op {
	case event.Added, event.Entered:
		return green
	case event.Modified:
		return yellow
	case event.Deleted, event.Left:
		return red
	case event.Snapshot:
		return cyan
	case event.Begin, event.Synced, event.Gap, event.State:
		return plain // lines of their own
	default:
		return plain
	}
}

// cell appends text and blanks up to the column's end. The blanks are outside
// the colour: no underline or reversed background runs on.
func (p *pretty) cell(dst []byte, c *column, colour, text string) []byte {
	width := utf8.RuneCountInString(text)
	if width <= c.limit {
		c.width = max(c.width, width)
	}
	dst = p.paint(dst, colour, text)
	for range max(c.width-width, 0) + 2 {
		dst = append(dst, ' ')
	}
	return dst
}

func (p *pretty) paint(dst []byte, colour, text string) []byte {
	if !p.colour || colour == plain {
		return append(dst, text...)
	}
	dst = append(dst, "\x1b["...)
	dst = append(dst, colour...)
	dst = append(dst, 'm')
	dst = append(dst, text...)
	return append(dst, "\x1b[0m"...)
}

// visible escapes, as Go does in string literals, what would act on a terminal
// instead of showing: control characters, invisible and bidirectional format
// characters, bytes that are not UTF-8, and the backslash itself.
func visible(s string) string {
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
