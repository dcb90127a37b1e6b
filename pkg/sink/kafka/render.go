package kafka

import (
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Render implements [sink.Renderer]. It does not know the limits of the brokers.
func (c *Config) Render(_ sink.Env, e *event.Event) (sink.Rendered, error) {
	p, err := parsePattern(c.Topic)
	if err != nil {
		return sink.Rendered{}, err
	}
	topic, err := p.topicOf(e)
	if err != nil {
		return sink.Rendered{}, err
	}
	key := keyOf(e)
	r := newRecord(e, topic, key, c.Format == sink.FormatCloudEvents)
	out := sink.Rendered{To: "topic " + topic + ", key " + key, Body: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, sink.Header{Name: h.Key, Value: string(h.Value)})
	}
	if c.Tombstones && e.Op == event.Deleted {
		out.Notes = append(out.Notes, "a record with the same key and a null value, a tombstone, follows")
	}
	return out, nil
}
