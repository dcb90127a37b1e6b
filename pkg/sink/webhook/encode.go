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

// body returns the body of a request before compression, a copy, and adds the headers that say what
// it is.
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
