// Package stdout is the sink that writes to the program's standard output: one CloudEvents
// JSON object or one bare object per line for programs, or aligned columns for people.
//
// Package deliver opens the sink through the [Driver] of package drivers. This package does
// not open or close standard output, and no other code should write there.
//
// # Broken pipes
//
// When the reader of a pipe exits, Go ends a process that writes to its standard output with
// SIGPIPE, unless the program ignores or handles that signal. If SIGPIPE is ignored, Write
// returns an error about the broken pipe.
package stdout

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Pretty is a format of this sink alone: one line for people per event, in local time, in colour on a
// terminal unless NO_COLOR is set. It is not meant to be parsed: it changes without notice.
const Pretty sink.Format = "pretty"

// Config is the options of a stdout sink.
type Config struct {
	// Format is "cloudevents", one JSON object per line, "raw", the bare object, or [Pretty],
	// lines for people.
	Format sink.Format `yaml:"format" enum:"cloudevents,raw,pretty"`
}

// Driver is the sink type "stdout".
func Driver() sink.Driver {
	return sink.Driver{
		Type:  "stdout",
		New:   func() sink.Config { return &Config{Format: sink.FormatCloudEvents} },
		Lanes: 1,
	}
}

// Validate implements [sink.Config].
func (c *Config) Validate() []sink.Problem {
	switch c.Format {
	case sink.FormatCloudEvents, sink.FormatRaw, Pretty:
		return nil
	default:
		message := fmt.Sprintf("%q is not a format; use %s (one event per line), %s (one bare object per line) "+
			"or %s (for people)", c.Format, sink.FormatCloudEvents, sink.FormatRaw, Pretty)
		return []sink.Problem{{Key: "format", Message: message}}
	}
}

// Open implements [sink.Config]. The sink writes to env.Stdout and nowhere else.
func (c *Config) Open(_ context.Context, env sink.Env) (sink.Sink, error) {
	return open(env.Stdout, c.renderer(env.Stdout)), nil
}

// Render implements [sink.Renderer].
func (c *Config) Render(env sink.Env, e *event.Event) (sink.Rendered, error) {
	out := sink.Rendered{To: "standard output", Body: c.renderer(env.Stdout)(nil, e)}
	if c.Format == Pretty {
		out.Notes = []string{"column widths depend on earlier events; on a terminal the output is in colour"}
	}
	return out, nil
}

// renderer appends what is written for an event, whole lines, to dst.
type renderer func(dst []byte, e *event.Event) []byte

func (c *Config) renderer(out io.Writer) renderer {
	if c.Format == Pretty {
		return newPretty(colourful(out, os.Getenv), time.Local).render
	}
	if terminal(out) {
		return harmless(c.Format.AppendLine)
	}
	return c.Format.AppendLine
}

// harmless escapes what a terminal would obey: names and values of objects are hostile
// input.
func harmless(render renderer) renderer {
	return func(dst []byte, e *event.Event) []byte {
		n := len(dst)
		dst = render(dst, e)
		return append(dst[:n], display.JSON(dst[n:])...)
	}
}

// colourful reports whether out is a terminal whose user wants colours
// (https://no-color.org).
func colourful(out io.Writer, getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && terminal(out)
}

func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
