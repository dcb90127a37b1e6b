package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

const byTime = "the time of the attempt"

// Render implements [sink.Renderer]. If the signing keys or the credential cannot be
// read, as on another machine than informd's, a note says so in place of them.
func (c *Config) Render(env sink.Env, e *event.Event) (sink.Rendered, error) {
	s, err := c.endpoint(env)
	if err != nil {
		return sink.Rendered{}, err
	}
	secrets, unsigned := s.signer.secrets()
	_, anonymous := s.credential.Header()
	if anonymous != nil {
		s.credential = endpoint.NewCredential(connection.Auth{})
	}
	// It is never sent: its context has nothing to end.
	request, err := s.request(context.Background(), []event.Event{*e}, secrets)
	if err != nil {
		return sink.Rendered{}, err
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return sink.Rendered{}, fmt.Errorf("read the body: %w", err)
	}
	out := sink.Rendered{To: request.Method + " " + s.where(), Body: body, Headers: c.shown(request.Header)}
	if unsigned != nil {
		out.Notes = append(out.Notes, "Webhook-Signature is missing here: "+unsigned.Error())
	}
	if anonymous != nil {
		out.Notes = append(out.Notes, "Authorization is missing here: "+anonymous.Error())
	}
	if c.Batch > 1 {
		out.Notes = append(out.Notes, fmt.Sprintf("a request has up to %d events; Webhook-Id depends on which", c.Batch))
	}
	return out, nil
}

// shown are the headers of a request, without what is secret in them.
func (c *Config) shown(headers http.Header) []sink.Header {
	all := endpoint.Shown(headers, c.Headers)
	for i := range all {
		if name := all[i].Name; name == "Webhook-Timestamp" || name == "Webhook-Signature" {
			all[i].Varies = byTime
		}
	}
	return all
}
