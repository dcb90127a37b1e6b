package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Trial is what a daemon would make of one change of one object.
type Trial struct {
	dynwatch.WatchPreview
	// Deliveries say what each sink has to do with the events, in the order of both:
	// Deliveries[i] belongs to Events[i].
	Deliveries [][]Trying
	// Notes say what is different from a daemon that runs.
	Notes []string
}

// Trying is what one sink has to do with one event.
type Trying struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Receives says whether its route admits the event, for these Reasons.
	Receives bool     `json:"receives"`
	Reasons  []string `json:"reasons"`
	// Trouble says why Sends is nil although the sink receives the event.
	Trouble string `json:"trouble,omitempty"`
	// Sends is what the sink sends if it receives the event.
	Sends *sink.Rendered `json:"-"`
}

// Received reports whether any sink receives anything.
func (t *Trial) Received() bool {
	return slices.ContainsFunc(t.Deliveries, func(sinks []Trying) bool {
		return slices.ContainsFunc(sinks, func(s Trying) bool { return s.Receives })
	})
}

// Try returns what a daemon with this config would make of a change, by the code that
// does it: the entry that takes it, the events, and what each sink would send. It
// contacts and changes nothing. The error is that the object is none that could be
// passed on.
func Try(ctx context.Context, c *config.Config, change dynwatch.Change) (*Trial, error) {
	t := new(Trial)
	key, note := keyToTry(c)
	preview, err := dynwatch.Preview(ctx, wanted(c), change, c.Cluster, key, c.Redaction.PlainAnnotations...)
	if err != nil {
		return nil, err
	}
	hashes := change.Group == "" && change.Resource == "secrets" || preview.Entry >= 0 && len(c.Resources[preview.Entry].Redact) > 0
	if hashes && note != "" {
		t.Notes = append(t.Notes, note)
	}
	t.WatchPreview = *preview
	for i := range t.Events {
		sinks := make([]Trying, len(c.Sinks))
		for j, s := range c.Sinks {
			sinks[j] = try(c, s, &t.Events[i])
		}
		t.Deliveries = append(t.Deliveries, sinks)
	}
	return t, nil
}

// try asks one sink.
func try(c *config.Config, s config.Sink, e *event.Event) Trying {
	t := Trying{Name: s.Name, Type: s.Type}
	if t.Receives, t.Reasons = newRoute(s).Explain(e); !t.Receives {
		return t
	}
	r, ok := s.Options.(sink.Renderer)
	if !ok {
		t.Trouble = "sinks of type " + s.Type + " cannot show what they send"
		return t
	}
	env := sink.Env{Name: s.Name, Cluster: c.Cluster, Logger: slog.New(slog.DiscardHandler), Stdout: io.Discard}
	if sends, err := r.Render(env, e); err == nil {
		t.Sends = &sends
	} else {
		t.Trouble = err.Error()
	}
	return t
}

// keyToTry returns the key that the daemon would hash the values of Secrets with, or
// one for the occasion and why. It makes no file.
func keyToTry(c *config.Config) (key []byte, note string) {
	const made = "values are hashed with a key for the occasion: "
	var err error
	switch {
	case c.Redaction.KeyFile != "":
		key, err = readKey(c.Redaction.KeyFile, "redaction.keyFile")
	case c.Journal.Type == config.JournalLog:
		key, err = readOwnKey(filepath.Join(c.Journal.Dir, keyName))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("no informd has created one in %s yet", c.Journal.Dir)
		}
	default:
		err = errors.New("each informd with this journal creates its own")
	}
	if err != nil {
		return newKey(), made + err.Error()
	}
	return bytes.Clone(key), ""
}
