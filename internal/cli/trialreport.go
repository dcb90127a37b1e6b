package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/daemon"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// trialReport is the document of the outcome.
type trialReport struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	Op       string `json:"op"`
	// Notes say what is different from an informd that runs.
	Notes   []string     `json:"notes,omitempty"`
	Entries []triedEntry `json:"entries"`
	// Target is the watch that would bring the change, empty if none.
	Target string       `json:"target,omitempty"`
	Events []triedEvent `json:"events"`
	// Silence says why there are none.
	Silence string `json:"silence,omitempty"`
}

// triedEntry is one of resources.
type triedEntry struct {
	Line     int    `json:"line"`
	Resource string `json:"resource"`
	Takes    bool   `json:"takes"`
	// Reason says why it does not take the object, Assumed what only a cluster knows.
	Reason  string   `json:"reason,omitempty"`
	Assumed []string `json:"assumed,omitempty"`
}

// triedEvent is what would be in the journal, and what the sinks make of it.
type triedEvent struct {
	Op    string          `json:"op"`
	Event json.RawMessage `json:"event"`
	Sinks []triedSink     `json:"sinks"`
	id    string
	data  []byte
}

type triedSink struct {
	daemon.Trying
	Sends *triedSend `json:"sends,omitempty"`
}

// triedSend is what a sink sends. Body64 is the body in base64 if it is no text, and Text its
// content for people, if the sink has one.
type triedSend struct {
	To      string        `json:"to"`
	Headers []sink.Header `json:"headers,omitempty"`
	Body    string        `json:"body,omitempty"`
	Body64  string        `json:"bodyBase64,omitempty"`
	Text    string        `json:"bodyText,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
}

// newTrialReport returns the report of a trial of a change with a config.
func newTrialReport(c *config.Config, change dynwatch.Change, of *daemon.Trial) *trialReport {
	t := &trialReport{
		Group: change.Group, Version: change.Version, Resource: change.Resource, Kind: change.Kind, Op: string(change.Op),
		Notes: of.Notes, Target: of.Target, Events: []triedEvent{}, Silence: of.Silence,
	}
	for i, e := range of.Entries {
		r := c.Resources[i]
		t.Entries = append(t.Entries, triedEntry{
			Line: r.Pos.Line, Resource: event.GroupOrCore(r.Group) + "/" + r.Resource, Takes: i == of.Entry, Reason: e.Refusal, Assumed: e.Assumed,
		})
	}
	for i := range of.Events {
		e := triedEvent{Op: string(of.Events[i].Op), Event: of.Events[i].AppendJSON(nil), id: of.Events[i].ID, data: of.Events[i].Data}
		for _, s := range of.Deliveries[i] {
			e.Sinks = append(e.Sinks, triedSink{s, newTriedSend(s.Sends)})
		}
		t.Events = append(t.Events, e)
	}
	return t
}

func newTriedSend(r *sink.Rendered) *triedSend {
	if r == nil {
		return nil
	}
	s := &triedSend{To: r.To, Headers: r.Headers, Notes: r.Notes}
	if utf8.Valid(r.Body) {
		s.Body = string(r.Body)
	} else {
		s.Body64, s.Text = base64.StdEncoding.EncodeToString(r.Body), string(r.Text)
	}
	return s
}

// printTrial writes a report for people, each step below the one that it follows from.
func printTrial(out io.Writer, t *trialReport) error {
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
		fmt.Fprintf(out, "\nevent %s, id %s, its data:\n%s\n", e.Op, visible(e.id), e.data)
		for _, s := range e.Sinks {
			printTriedSink(out, s)
		}
	}
	if t.Silence != "" {
		fmt.Fprintf(out, "\nnothing is announced: %s\n", t.Silence)
	}
	return nil
}

func printTriedSink(out io.Writer, s triedSink) {
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
		fmt.Fprintf(out, "  body as text:\n%s\n", s.Sends.Text)
	case s.Sends.Body64 != "":
		fmt.Fprintf(out, "  body in base64:\n%s\n", s.Sends.Body64)
	default:
		fmt.Fprintf(out, "%s\n", strings.TrimSuffix(s.Sends.Body, "\n"))
	}
}
