package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// Render implements [sink.Renderer]. If the credential cannot be read, as on another machine
// than informd's, a note says so in place of it. The text is OTLP's JSON form of the body.
func (c *Config) Render(env sink.Env, e *event.Event) (sink.Rendered, error) {
	s, err := c.exporter(env)
	if err != nil {
		return sink.Rendered{}, err
	}
	_, anonymous := s.credential.Header()
	if anonymous != nil {
		s.credential = endpoint.NewCredential(connection.Auth{})
	}
	message, _, err := s.message([]event.Event{*e})
	if err != nil {
		return sink.Rendered{}, err
	}
	// It is never sent: its context has nothing to end.
	request, err := s.request(context.Background(), message)
	if err != nil {
		return sink.Rendered{}, err
	}
	out := sink.Rendered{
		To:      request.Method + " " + endpoint.Where(s.url) + s.path(),
		Headers: endpoint.Shown(request.Header, c.Headers),
		Notes:   []string{"a request has up to 256 events; consecutive ones of a namespace share their resource"},
	}
	if out.Body, err = io.ReadAll(request.Body); err != nil {
		return sink.Rendered{}, fmt.Errorf("read the body: %w", err)
	}
	if out.Text, err = text(message); err != nil {
		return sink.Rendered{}, err
	}
	if anonymous != nil {
		out.Notes = append(out.Notes, "Authorization is missing here: "+anonymous.Error())
	}
	return out, nil
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
