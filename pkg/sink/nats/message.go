package nats

import (
	"fmt"
	"slices"

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
	headerReplay   = "ce-replay"

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
	format sink.Format
}

// message makes the message of an event.
func (f form) message(e *event.Event) *client.Msg {
	return (&maker{form: f}).message(e)
}

// maker makes messages one after the other in the same memory, for a client that is done
// with each when it has taken it: a message is valid until the next.
type maker struct {
	form   form
	msg    client.Msg
	values []string // of all headers, one piece of memory
	header int      // how many bytes the headers take at most
	body   []byte
}

// message makes the message of an event. Its headers hold no byte that the client
// library would change: their values are percent-encoded.
func (m *maker) message(e *event.Event) *client.Msg {
	if m.msg.Header == nil {
		most := 24 // headers
		if m.form.format == sink.FormatCloudEvents {
			most = 8
		}
		m.msg.Header, m.values = make(client.Header, most), make([]string, 0, most)
	}
	clear(m.msg.Header)
	m.values, m.header = m.values[:0], headersRoom+len(event.ContentTypeJSON)
	e.AppendHeaders(func(name, value string) {
		if m.form.format != sink.FormatCloudEvents || inStructured(name) {
			m.values = append(m.values, value)
			last := len(m.values) - 1
			m.msg.Header[name] = m.values[last : last+1 : last+1]
			m.header += len(name) + len(value) + len(": \r\n")
		}
	})
	m.msg.Subject, m.msg.Data = e.NATSSubject(m.form.prefix), e.Data
	switch m.form.format {
	case sink.FormatCloudEvents:
		m.msg.Header[headerType] = []string{event.ContentTypeJSON}
		m.body = e.AppendJSON(slices.Grow(m.body[:0], e.Size()+512)) // for the names of the attributes
		m.msg.Data = m.body
	case sink.FormatRaw:
		if m.msg.Data = e.Raw(); m.msg.Data == nil {
			delete(m.msg.Header, headerType)
		}
	case sink.FormatBinary:
	}
	return &m.msg
}

// fits reports whether the server takes the message that was made last, without asking
// the client library for its size, which goes over all headers. If it is false,
// [checkSize] has to say.
func (m *maker) fits(limit int64) bool {
	return len(m.msg.Subject) <= maxSubject && m.header <= maxHeader && int64(m.header+len(m.msg.Data)) <= limit
}

// inStructured reports whether a header stands beside a whole event, too: those by
// which the sink knows its own messages. With all of them, readers of CloudEvents
// would take the message for one in binary mode.
func inStructured(name string) bool {
	return name == headerID || name == headerRevision || name == headerTime || name == headerReplay
}

// streamMessage makes the message of an event for a stream, which takes each id once.
func (f form) streamMessage(e *event.Event) *client.Msg {
	m := f.message(e)
	m.Header[jetstream.MsgIDHeader] = m.Header[headerID]
	return m
}

// headersRoom is what the headers take beside those of the event: their first and last
// line, the content type, and the condition on the last message.
const headersRoom = len("NATS/1.0\r\n\r\n") + len(headerType) + len(": \r\n") + conditionRoom

// conditionRoom is what the condition on the last message takes in the headers.
const conditionRoom = len(jetstream.ExpectedLastSubjSeqHeader) + 24

// checkSize returns a permanent error for a message that the server would refuse
// for its size, in most cases by ending the connection. limit is in bytes, for
// headers and body together.
func checkSize(m *client.Msg, limit int64) error {
	if len(m.Subject) > maxSubject {
		return sink.Permanent(fmt.Errorf("the subject has %d bytes, the limit of NATS is %d", len(m.Subject), maxSubject))
	}
	header := m.Size() - len(m.Subject) - len(m.Data) + conditionRoom
	if header > maxHeader {
		return sink.Permanent(fmt.Errorf("the headers have %d bytes, the limit of NATS is %d", header, maxHeader))
	}
	if size := int64(header + len(m.Data)); size > limit {
		return sink.Permanent(fmt.Errorf("the event has %d bytes, the limit of the server is %d: "+
			"raise max_payload in the server's configuration (and max_msg_size of the stream), or make events smaller with omit", size, limit))
	}
	return nil
}
