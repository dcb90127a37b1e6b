package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"unicode/utf8"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Trial is what a daemon would make of one change of one object. It is the document of `informd try`.
type Trial struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	Op       string `json:"op"`
	// Notes say what is different from an informd that runs.
	Notes   []string     `json:"notes,omitempty"`
	Entries []TriedEntry `json:"entries"`
	// Target is the watch that would bring the change, empty if none.
	Target string       `json:"target,omitempty"`
	Events []TriedEvent `json:"events"`
	// Silence says why there are none.
	Silence string `json:"silence,omitempty"`
}

// TriedEntry is one entry of resources.
type TriedEntry struct {
	Line     int    `json:"line"`
	Resource string `json:"resource"`
	Takes    bool   `json:"takes"`
	// Reason says why it does not take the object, Assumed what only a cluster knows.
	Reason  string   `json:"reason,omitempty"`
	Assumed []string `json:"assumed,omitempty"`
}

// TriedEvent is what would be in the journal, and what the sinks make of it.
type TriedEvent struct {
	Op    string          `json:"op"`
	Event json.RawMessage `json:"event"`
	Sinks []TriedSink     `json:"sinks"`
	// ID and Data are those of Event.
	ID   string `json:"-"`
	Data []byte `json:"-"`
}

// TriedSink is what one sink has to do with one event.
type TriedSink struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Receives says whether its route admits the event, for these Reasons.
	Receives bool     `json:"receives"`
	Reasons  []string `json:"reasons"`
	// Trouble says why Sends is nil although the sink receives the event.
	Trouble string `json:"trouble,omitempty"`
	// Sends is what the sink sends if it receives the event.
	Sends *TriedSend `json:"sends,omitempty"`
}

// TriedSend is what a sink sends. Body64 is the body in base64 if it is no text, and Text its
// content for people, if the sink has one.
type TriedSend struct {
	To      string        `json:"to"`
	Headers []sink.Header `json:"headers,omitempty"`
	Body    string        `json:"body,omitempty"`
	Body64  string        `json:"bodyBase64,omitempty"`
	Text    string        `json:"bodyText,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
}

// Received reports whether any sink receives anything.
func (t *Trial) Received() bool {
	return slices.ContainsFunc(t.Events, func(e TriedEvent) bool {
		return slices.ContainsFunc(e.Sinks, func(s TriedSink) bool { return s.Receives })
	})
}

// Try returns what a daemon with this config would make of a change, by the code that
// does it: the entry that takes it, the events, and what each sink would send. Notes are those of the caller.
// It contacts and changes nothing. The error is that the object is none that could be
// passed on.
func Try(ctx context.Context, c *config.Config, change dynwatch.Change, notes []string) (*Trial, error) {
	preview, err := dynwatch.Preview(ctx, dynwatch.Options{
		Cluster: c.Cluster, RedactionKey: newKey(), PlainAnnotations: c.Redaction.PlainAnnotations,
	}, wanted(c), change)
	if err != nil {
		return nil, err
	}
	if change.Group == "" && change.Resource == "secrets" || preview.Entry >= 0 && len(c.Resources[preview.Entry].Redact) > 0 {
		notes = append(notes, "values are hashed with a key for the occasion, not with that of informd")
	}
	t := &Trial{
		Group: change.Group, Version: change.Version, Resource: change.Resource, Kind: change.Kind, Op: string(change.Op),
		Notes: notes, Target: preview.Target, Events: []TriedEvent{}, Silence: preview.Silence,
	}
	for i, e := range preview.Entries {
		r := c.Resources[i]
		t.Entries = append(t.Entries, TriedEntry{
			Line: r.Pos.Line, Resource: event.GroupOrCore(r.Group) + "/" + r.Resource, Takes: i == preview.Entry, Reason: e.Refusal, Assumed: e.Assumed,
		})
	}
	for i := range preview.Events {
		e := &preview.Events[i]
		one := TriedEvent{Op: string(e.Op), Event: e.AppendJSON(nil), ID: e.ID, Data: e.Data}
		for _, s := range c.Sinks {
			one.Sinks = append(one.Sinks, try(c, s, e))
		}
		t.Events = append(t.Events, one)
	}
	return t, nil
}

// try asks one sink.
func try(c *config.Config, s config.Sink, e *event.Event) TriedSink {
	t := TriedSink{Name: s.Name, Type: s.Type}
	if t.Receives, t.Reasons = newRoute(s).Explain(e); !t.Receives {
		return t
	}
	r, ok := s.Options.(sink.Renderer)
	if !ok {
		t.Trouble = "sinks of type " + s.Type + " cannot show what they send"
		return t
	}
	env := sink.Env{Name: s.Name, Cluster: c.Cluster, Logger: slog.New(slog.DiscardHandler), Stdout: io.Discard}
	sends, err := r.Render(env, e)
	if err != nil {
		t.Trouble = err.Error()
		return t
	}
	t.Sends = &TriedSend{To: sends.To, Headers: sends.Headers, Notes: sends.Notes}
	if utf8.Valid(sends.Body) {
		t.Sends.Body = string(sends.Body)
	} else {
		t.Sends.Body64, t.Sends.Text = base64.StdEncoding.EncodeToString(sends.Body), string(sends.Text)
	}
	return t
}
