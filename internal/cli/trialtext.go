package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
)

// printTrial writes a report for people, each step below the one that it follows from.
func printTrial(out io.Writer, t *daemon.Trial) error {
	fmt.Fprintf(out, "%s/%s, kind %s, version %s: %s\n", event.GroupOrCore(t.Group), t.Resource, visible(t.Kind), visible(t.Version), t.Op)
	for _, note := range t.Notes {
		fmt.Fprintf(out, "  note: %s\n", visible(note))
	}
	fmt.Fprintln(out)
	for i, e := range t.Entries {
		outcome := "does not take it: " + visible(e.Reason)
		switch {
		case e.Takes:
			outcome = "takes it, target " + t.Target
		case e.Reason == "":
			outcome = "does not take it: an entry before it does"
		}
		fmt.Fprintf(out, "resources[%d] %s (line %d) %s\n", i, e.Resource, e.Line, outcome)
		for _, assumed := range e.Assumed {
			if e.Takes {
				fmt.Fprintf(out, "  assumed: %s\n", visible(assumed))
			}
		}
	}
	for _, e := range t.Events {
		fmt.Fprintf(out, "\nevent %s, id %s, its data:\n%s\n", e.Op, visible(e.ID), display.JSON(e.Data))
		for _, s := range e.Sinks {
			printTriedSink(out, s)
		}
	}
	if t.Silence != "" {
		fmt.Fprintf(out, "\nnothing is announced: %s\n", t.Silence)
	}
	return nil
}

func printTriedSink(out io.Writer, s daemon.TriedSink) {
	outcome := "receives it"
	if !s.Receives {
		outcome = "does not receive it"
	}
	fmt.Fprintf(out, "\nsink %s (%s) %s: %s\n", s.Name, s.Type, outcome, visible(strings.Join(s.Reasons, "; ")))
	if s.Trouble != "" {
		fmt.Fprintf(out, "  cannot be shown: %s\n", visible(s.Trouble))
	}
	if s.Sends == nil {
		return
	}
	fmt.Fprintf(out, "  to: %s\n", visible(s.Sends.To))
	for _, note := range s.Sends.Notes {
		fmt.Fprintf(out, "  note: %s\n", visible(note))
	}
	for _, h := range s.Sends.Headers {
		varies := ""
		if h.Varies != "" {
			varies = "   <- depends on " + h.Varies
		}
		fmt.Fprintf(out, "  %s: %s%s\n", visible(h.Name), visible(h.Value), varies)
	}
	switch {
	case s.Sends.Text != "":
		fmt.Fprintf(out, "  body as text:\n%s\n", display.JSON([]byte(s.Sends.Text)))
	case s.Sends.Body64 != "":
		fmt.Fprintf(out, "  body in base64:\n%s\n", s.Sends.Body64)
	default:
		fmt.Fprintf(out, "%s\n", display.JSON([]byte(strings.TrimSuffix(s.Sends.Body, "\n"))))
	}
}
