package webhook

import (
	"fmt"
	"net/http"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const byTime = "the time of the attempt"

// Render implements [sink.Renderer]. If the signing keys or the credential cannot be
// read, as on another machine than informd's, a note says so in place of them.
func (c *Config) Render(env sink.Env, e *event.Event) (sink.Rendered, error) {
	s, err := c.webhook(env)
	if err != nil {
		return sink.Rendered{}, err
	}
	secrets, unsigned := s.signer.secrets()
	out, err := s.Endpoint.Render(func() (*http.Request, error) { return s.request([]event.Event{*e}, secrets) })
	if err != nil {
		return sink.Rendered{}, err
	}
	for i := range out.Headers {
		if name := out.Headers[i].Name; name == "Webhook-Timestamp" || name == "Webhook-Signature" {
			out.Headers[i].Varies = byTime
		}
	}
	if unsigned != nil {
		out.Notes = append(out.Notes, "Webhook-Signature is missing here: "+unsigned.Error())
	}
	if c.Batch > 1 {
		out.Notes = append(out.Notes, fmt.Sprintf("a request has up to %d events; Webhook-Id depends on which", c.Batch))
	}
	return out, nil
}
