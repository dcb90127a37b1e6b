package webhook

import (
	"bytes"
	"net/http"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// body returns the body of a request before compression, a copy, and adds the headers that say what
// it is.
func (s *webhook) body(events []event.Event, header http.Header) []byte {
	e := &events[0]
	switch {
	case s.config.Format == sink.FormatBinary || s.config.Format == sink.FormatRaw:
		e.AppendHeaders(header.Set)
		if s.config.Format == sink.FormatBinary {
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
