package sink

import "github.com/informd/informd/pkg/event"

// Renderer is a [Config] that can show what its sinks send, without sending it. The
// code that renders is the code that sends, so that the two cannot differ.
type Renderer interface {
	Config
	// Render returns what a sink with these options sends for one event. It contacts
	// nothing, and may read files that the options name. An error says why the event
	// cannot be sent.
	Render(env Env, e *event.Event) (Rendered, error)
}

// Rendered is what a sink sends for one event.
type Rendered struct {
	// To says where it goes, without anything secret: a file, a subject, a method and
	// the host of an address.
	To string
	// Headers are what goes with the body, by name, without those that the protocol
	// adds for itself. Nil where there are none.
	Headers []Header
	// Body is what is sent, to the byte.
	Body []byte
	// Notes say what is different when it is sent for real.
	Notes []string
}

// Header is one header of what a sink sends.
type Header struct {
	Name string
	// Value is "<redacted>" if it is secret.
	Value string
	// Varies says what the value depends on beside the event, empty for nothing.
	Varies string
}
