package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint"
)

// drainTimeout is how long reading an answer may take once its status is known.
const drainTimeout = time.Second

// webhook is an open endpoint. Write may be called concurrently.
type webhook struct {
	config     *Config
	url        *url.URL
	agent      string
	signer     signer
	credential *endpoint.Credential
	encoder    *compress.Encoder
	client     *endpoint.Client
	trust      endpoint.Trust
}

// Write implements [sink.Sink]: request after request, each with up to
// [Config.Batch] events.
func (s *webhook) Write(ctx context.Context, batch []event.Event) (int, error) {
	if len(batch) == 0 {
		return 0, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	secrets, err := s.signer.secrets()
	if err != nil {
		return 0, err
	}
	done := 0
	single := 0 // batch[:single] goes one by one
	for done < len(batch) {
		end := min(done+s.config.Batch, len(batch))
		if done < single {
			end = done + 1
		}
		err := s.post(ctx, batch[done:end], secrets)
		if (sink.IsPermanent(err) || sink.IsUnknown(err)) && end-done > 1 {
			single = end // one of them is at fault; find out which
			continue
		}
		if err != nil {
			return done, err
		}
		done = end
	}
	return done, nil
}

// Close implements [sink.Sink]. There is nothing to wait for.
func (s *webhook) Close(context.Context) error {
	s.client.Close()
	return nil
}

// post sends one request and judges the answer.
func (s *webhook) post(ctx context.Context, events []event.Event, secrets [][]byte) error {
	attempt, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	request, err := s.request(attempt, events, secrets)
	if err != nil {
		return err
	}
	response, err := s.client.Send(request)
	if err != nil {
		failed := s.explain(ctx, attempt, err)
		if endpoint.BeyondPeer(err) && longHeaders(request.Header) {
			return sink.Permanent(failed)
		}
		return failed
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		// The body is the connection itself: a read from it ends with neither context nor deadline.
		return s.refusal(response, nil, len(events))
	}
	answer := readAnswer(response.Body, cancel)
	if response.StatusCode/100 == 2 {
		s.trust.Accepted()
		return nil
	}
	if response.StatusCode == http.StatusUnauthorized {
		s.credential.Refused()
	}
	return s.refusal(response, answer, len(events))
}

// request makes the request. Its body is a copy: the transport may still read it
// when Write has returned.
func (s *webhook) request(ctx context.Context, events []event.Event, secrets [][]byte) (*http.Request, error) {
	authorization, err := s.credential.Header()
	if err != nil {
		return nil, err
	}
	header := make(http.Header)
	body, err := s.encode(events, header)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make request: url is not an address") // err would show it
	}
	request.Header = header
	for name, value := range s.config.Headers {
		request.Header.Set(name, value.Reveal())
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	id, timestamp := messageID(events), strconv.FormatInt(time.Now().Unix(), 10)
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", s.agent)
	}
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", timestamp)
	if len(secrets) > 0 {
		request.Header.Set("Webhook-Signature", signature(secrets, id, timestamp, body))
	}
	return request, nil
}

// readAnswer reads what is worth reading of a body, and returns the beginning.
// Errors do not matter: the status has been read. If the body takes too long, it
// calls cancel and closes the body.
func readAnswer(body io.ReadCloser, cancel context.CancelFunc) []byte {
	defer time.AfterFunc(drainTimeout, func() {
		cancel()
		_ = body.Close()
	}).Stop()
	answer, _ := endpoint.ReadAnswer(body)
	return answer
}

// where names the endpoint in errors. A path or query may hold a token.
func (s *webhook) where() string { return endpoint.Where(s.url) }

// explain says why there is no answer.
func (s *webhook) explain(ctx, attempt context.Context, err error) error {
	if private, ok := errors.AsType[*privateError](err); ok && attempt.Err() == nil {
		return fmt.Errorf("post to %s: %w; set url to a public address, or blockPrivateAddresses: false", s.where(), private)
	}
	return s.client.Explain(ctx, attempt, err)
}
