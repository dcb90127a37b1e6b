package webhook

import (
	"bytes"
	"net/http"

	"github.com/informd/informd/pkg/event"
)

// Format is the form of a request.
type Format string

// The formats.
const (
	// CloudEvents is CloudEvents structured mode: the body is the whole event as JSON,
	// or an array of events.
	CloudEvents Format = "cloudevents"
	// Binary is CloudEvents binary mode: the attributes are headers, the body is the
	// data.
	Binary Format = "binary"
	// Raw has the headers of binary mode, and the bare object as the body.
	Raw Format = "raw"
)

// encode returns the body of a request, as it is sent, and adds the headers that say
// what it is. The body is a copy.
func (s *webhook) encode(events []event.Event, header http.Header) ([]byte, error) {
	body := s.body(events, header)
	if s.config.Compression.Suffix() == "" || len(body) == 0 {
		return body, nil
	}
	header.Set("Content-Encoding", string(s.config.Compression))
	return s.encoder.Encode(body)
}

func (s *webhook) body(events []event.Event, header http.Header) []byte {
	e := &events[0]
	switch {
	case s.config.Format == Binary || s.config.Format == Raw:
		e.AppendHeaders(header.Set)
		if s.config.Format == Binary {
			return bytes.Clone(e.Data)
		}
		body := e.Raw()
		if body == nil {
			header.Del("Content-Type") // of nothing
		}
		return bytes.Clone(body)
	case s.config.Batch == 1:
		header.Set("Content-Type", event.ContentTypeJSON)
		return e.AppendJSON(make([]byte, 0, room(events)))
	}
	header.Set("Content-Type", event.ContentTypeBatch)
	return event.AppendJSONBatch(make([]byte, 0, room(events)), events)
}

// room is about how many bytes the events take as JSON.
func room(events []event.Event) int {
	size := 0
	for i := range events {
		size += events[i].Size() + 512 // for the names of the attributes
	}
	return size
}

// validateFormat checks what belongs to the form of requests.
func (c *Config) validateFormat(add func(key, format string, args ...any)) {
	switch c.Format {
	case CloudEvents:
	case Binary, Raw:
		if c.Batch > 1 {
			add("batch", "must be 1 with format: %s, where a request has the attributes of one event as headers; "+
				"set it to 1 or use format: %s", c.Format, CloudEvents)
		}
	default:
		add("format", "%q is not a format; use %s (the whole event as the body), %s (attributes as headers) or %s (the bare object as the body)",
			c.Format, CloudEvents, Binary, Raw)
	}
	if problem := c.Compression.Problem(); problem != "" {
		add("compression", "%s", problem)
	}
}
