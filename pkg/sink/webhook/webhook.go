package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
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
