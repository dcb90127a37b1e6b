package nats

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Render implements [sink.Renderer]. The server's limit for the size of a message is
// not known here; the protocol's own are.
func (c *Config) Render(_ sink.Env, e *event.Event) (sink.Rendered, error) {
	m := c.form().message(e)
	var notes []string
	if c.JetStream {
		m = c.form().streamMessage(e)
		notes = []string{"to stream " + c.Stream + "; for an event that may have been sent before, " +
			jetstream.ExpectedLastSubjSeqHeader + " is added"}
	}
	if err := checkSize(m, math.MaxInt64); err != nil {
		return sink.Rendered{}, err
	}
	out := sink.Rendered{To: m.Subject, Body: m.Data, Notes: notes}
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		out.Headers = append(out.Headers, sink.Header{Name: name, Value: strings.Join(m.Header[name], ", ")})
	}
	return out, nil
}
