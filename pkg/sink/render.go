package sink

import "github.com/informd/informd/pkg/event"

// Renderer is a [Config] that can show the bytes of its sinks without sending them. Sinks
// send with the same code, so that the two cannot differ.
type Renderer interface {
	Config
	// Render returns the output of a sink with these options for one event. It makes no
	// connection, and may read files that the options name. An error says why the event
	// cannot be sent.
	Render(env Env, e *event.Event) (Rendered, error)
}

// Rendered is the output of a sink for one event.
type Rendered struct {
	// To is the destination without secrets: a file, a subject, or a method and the host of
	// an address.
	To string
	// Headers are the headers by name, without those that the protocol adds. It may be nil.
	Headers []Header
	// Body is the exact body.
	Body []byte
	// Text is the body for people, if Body is no text: the content of a binary or compressed
	// body. It may be nil.
	Text []byte
	// Notes list the differences to a real delivery.
	Notes []string
}

// Header is one header of a sink's output.
type Header struct {
	Name string `json:"name"`
	// Value is "<redacted>" if it is secret.
	Value string `json:"value"`
	// Varies names the inputs of the value beside the event. It may be empty.
	Varies string `json:"varies,omitempty"`
}
