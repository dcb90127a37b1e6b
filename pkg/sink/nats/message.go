package nats

import (
	"fmt"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	headerType     = "content-type"
	headerID       = "ce-id"
	headerRevision = "ce-resourceversion"
	headerTime     = "ce-time"

	// maxSubject keeps the protocol line under the server's default of 4,096
	// bytes with room for the reply subject and the sizes: a longer line ends the
	// connection.
	maxSubject = 3900
	// maxHeader is JetStream's limit for all headers of a message.
	maxHeader = 64 << 10
)

// form is what messages look like.
type form struct {
	prefix string // of the subjects
	format Format
}

// message makes the message of an event. Its headers hold no byte that the client
// library would change: their values are percent-encoded.
func (f form) message(e *event.Event) *client.Msg {
	most := 24 // headers
	if f.format == CloudEvents {
		most = 8
	}
	m := &client.Msg{Subject: e.NATSSubject(f.prefix), Header: make(client.Header, most), Data: e.Data}
	values := make([]string, 0, most) // of all headers, one piece of memory
	e.AppendHeaders(func(name, value string) {
		if f.format != CloudEvents || inStructured(name) {
			values = append(values, value)
			m.Header[name] = values[len(values)-1 : len(values) : len(values)]
		}
	})
	switch f.format {
	case CloudEvents:
		m.Header[headerType] = []string{event.ContentTypeJSON}
		m.Data = e.AppendJSON(make([]byte, 0, e.Size()+512)) // for the names of the attributes
	case Raw:
		if m.Data = e.Raw(); m.Data == nil {
			delete(m.Header, headerType)
		}
	case Binary:
	}
	return m
}

// inStructured reports whether a header stands beside a whole event, too: those by
// which the sink knows its own messages. With all of them, readers of CloudEvents
// would take the message for one in binary mode.
func inStructured(name string) bool {
	return name == headerID || name == headerRevision || name == headerTime
}

// streamMessage makes the message of an event for a stream, which takes each id once.
func (f form) streamMessage(e *event.Event) *client.Msg {
	m := f.message(e)
	m.Header[jetstream.MsgIDHeader] = m.Header[headerID]
	return m
}

// headerRoom is what the condition on the last message takes in the headers.
const headerRoom = len(jetstream.ExpectedLastSubjSeqHeader) + 24

// checkSize returns a permanent error for a message that the server would refuse
// for its size, in most cases by ending the connection. limit is in bytes, for
// headers and body together.
func checkSize(m *client.Msg, limit int64) error {
	if len(m.Subject) > maxSubject {
		return sink.Permanent(fmt.Errorf("the subject would have %d bytes, NATS takes at most %d", len(m.Subject), maxSubject))
	}
	header := m.Size() - len(m.Subject) - len(m.Data) + headerRoom
	if header > maxHeader {
		return sink.Permanent(fmt.Errorf("the headers would have %d bytes, NATS takes at most %d", header, maxHeader))
	}
	if size := int64(header + len(m.Data)); size > limit {
		return sink.Permanent(fmt.Errorf("the event has %d bytes, the server takes at most %d: "+
			"raise max_payload in the server's configuration (and max_msg_size of the stream), or make events smaller with omit", size, limit))
	}
	return nil
}
