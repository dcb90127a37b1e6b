package otlp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// Render implements [sink.Renderer]. If the credential cannot be read, as on another machine
// than informd's, a note says so in place of it. The text is OTLP's JSON form of the body.
func (c *Config) Render(env sink.Env, e *event.Event) (sink.Rendered, error) {
	s, err := c.exporter(env)
	if err != nil {
		return sink.Rendered{}, err
	}
	message, _, err := s.message([]event.Event{*e})
	if err != nil {
		return sink.Rendered{}, err
	}
	out, err := s.Endpoint.Render(func() (*http.Request, error) { return s.request(message) })
	if err != nil {
		return sink.Rendered{}, err
	}
	out.To += s.path()
	out.Notes = append(out.Notes, "a request has up to 256 events; consecutive ones of a namespace share their resource")
	out.Text, err = text(message)
	return out, err
}

// text is the message in the JSON form of protocol buffers, in which names are in camelCase as
// in OTLP's JSON form.
func text(message []byte) ([]byte, error) {
	var data logs.LogsData
	if err := proto.Unmarshal(message, &data); err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	out, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(&data)
	if err != nil {
		return nil, fmt.Errorf("write the message as JSON: %w", err)
	}
	// The package puts spaces where they differ from build to build.
	var compact bytes.Buffer
	err = json.Compact(&compact, out)
	return compact.Bytes(), err
}
