package stdout

import (
	"io"
	"time"

	"github.com/informd/informd/pkg/event"
)

// RenderPretty is the pretty form with the time in UTC.
func RenderPretty(colour bool, events []event.Event) []byte {
	p := newPretty(colour, time.UTC)
	var text []byte
	for i := range events {
		text = p.render(text, &events[i])
	}
	return text
}

// Colourful is the decision about colours.
func Colourful(out io.Writer, getenv func(string) string) bool { return colourful(out, getenv) }
