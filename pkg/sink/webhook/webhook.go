package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// drainTimeout is how long reading an answer may take once its status is known.
const drainTimeout = time.Second

// webhook is an open endpoint. Write may be called concurrently.
type webhook struct {
	*endpoint.Endpoint

	config *Config
	signer signer
}

// Write implements [sink.Sink]: request after request, each with up to
// [Config.Batch] events.
func (s *webhook) Write(ctx context.Context, batch []event.Event) (int, error) {
	secrets, err := s.signer.secrets()
	if err != nil {
		return 0, err
	}
	return endpoint.Write(ctx, batch, func(events []event.Event) (int, error) {
		n := min(s.config.Batch, len(events))
		return n, s.post(ctx, events[:n], secrets)
	})
}

// post sends one request and judges the answer.
func (s *webhook) post(ctx context.Context, events []event.Event, secrets [][]byte) error {
	request, err := s.request(events, secrets)
	if err != nil {
		return err
	}
	answer, err := s.Post(ctx, request, drainTimeout)
	if private, ok := errors.AsType[*privateError](err); ok {
		return fmt.Errorf("post to %s: %w; set url to a public address, or blockPrivateAddresses: false", s.Where(), private)
	}
	switch {
	case err != nil && endpoint.BeyondPeer(err) && longHeaders(request.Header):
		return sink.Permanent(err)
	case err != nil:
		return err
	case answer.StatusCode/100 == 2:
		s.Accepted()
		return nil
	}
	return s.refusal(answer, len(events))
}

// request makes the request. Its body is a copy: the transport may still read it
// when Write has returned.
func (s *webhook) request(events []event.Event, secrets [][]byte) (*http.Request, error) {
	header := http.Header{}
	body := s.body(events, header)
	if len(body) > 0 {
		var err error
		if body, err = s.Compress(body, header, "Content-Encoding"); err != nil {
			return nil, err
		}
	}
	id, timestamp := messageID(events), strconv.FormatInt(time.Now().Unix(), 10)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", timestamp)
	if len(secrets) > 0 {
		header.Set("Webhook-Signature", signature(secrets, id, timestamp, body))
	}
	return s.Request(s.URL, header, body)
}

// usualHeaders is more than the headers of any event take whose names the API server bounds.
const usualHeaders = 4 << 10

// longHeaders reports whether the headers of an event in binary mode are so long that an
// endpoint may refuse the request for them alone. The API server does not bound every name.
func longHeaders(header http.Header) bool {
	size := 0
	for name, values := range header {
		if strings.HasPrefix(name, "Ce-") {
			for _, value := range values {
				size += len(name) + len(value)
			}
		}
	}
	return size > usualHeaders
}

// refusal makes an error of an answer, to a request with that many events, that is not 2xx.
func (s *webhook) refusal(answer *endpoint.Answer, events int) error {
	code, r := answer.StatusCode, s.Status(answer, events)
	if longHeaders(answer.Request.Header) && (code == http.StatusRequestHeaderFieldsTooLarge || code == http.StatusBadRequest) { // nginx answers 400
		r.About = endpoint.OfSize
	}
	switch code {
	case http.StatusRequestHeaderFieldsTooLarge:
		r.What += "; use format: cloudevents, which has no attributes in headers, or raise the endpoint's limit of headers"
	case http.StatusGone:
		r.What += "; the endpoint accepts no more events: remove the sink, or make the endpoint accept them"
	}
	return s.Refused(r)
}
