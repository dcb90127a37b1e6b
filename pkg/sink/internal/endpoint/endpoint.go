// Package endpoint has what sinks over HTTP have in common: the keys and their checks, the client and
// its connections, the credential, and what an answer says of events. Packages webhook and otlp call
// it; it knows no body.
//
// # Answers
//
// A sink may judge some of them otherwise, and says so.
//
//   - 413 is permanent: the events can never be delivered.
//   - 400 and 422 are permanent if the endpoint accepts other events: it must have accepted one since
//     Open, and must not have refused more than ten events in a row since then. Otherwise they may
//     concern every event, as with a wrong secret: the error is unknown, see [sink.Unknown].
//   - Every other 4xx that is not named below is unknown as well.
//   - If one of these refuses several events, they go one by one, to find the refused one.
//   - Every other answer is retried without a limit, after the pause of Retry-After, at most ten
//     minutes. 408, 425, 429 and 5xx end without an operator. 401, 403, 404, 405, 407, 410, 415, 421
//     and 426, and redirects, are mistakes in the configuration of either side: no event is lost until
//     they are corrected. After 101 the connection is closed: informd uses no other protocol.
//   - The timeout limits one attempt with all its parts; no answer is retried as well. A connection
//     over which nothing arrives for twice as long, not even the answer to a ping, is replaced.
//
// The first 200 bytes of an answer go to the log, and only there: they are no part of an error, of
// /status or of a dead letter. They are logged only if the request has nothing that may be secret: no
// path, query or user in url, no headers and no auth.
package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
)

// MaxAnswer is how much of an answer is read, so that the connection can be
// used again; more costs the connection.
const MaxAnswer = 64 << 10

// Endpoint is what the keys name. Its methods may be called concurrently, but for Open and Close.
type Endpoint struct {
	URL *url.URL

	kind    Kind
	options *Options
	agent   string
	encoder *compress.Encoder
	client  *client
	// trust is how many more refusals of single events are believed: an endpoint that refuses everything, for
	// want of the right secret perhaps, must not turn the whole stream into dead letters.
	trust   atomic.Int64
	answers atomic.Bool // it has answered since Open
}

// New makes an endpoint that makes requests, and sends none before it is open.
func New(o *Options, env sink.Env, kind Kind) (*Endpoint, error) {
	address, err := url.Parse(o.URL.Reveal())
	if err != nil {
		return nil, errors.New("url is not an address") // err would show it
	}
	encoder, err := compress.NewEncoder(o.Compression)
	if err != nil {
		return nil, err
	}
	return &Endpoint{
		URL: address, kind: kind, options: o, agent: "informd/" + env.Cluster, encoder: encoder,
	}, nil
}

// Open prepares connections for at most lanes requests at a time; adjust may change how they are
// made. It fails if a file that a key names cannot be read or has the wrong content.
func (e *Endpoint) Open(lanes int, adjust func(*http.Transport, *net.Dialer)) error {
	config, err := e.options.TLS.Config()
	if err != nil {
		return err
	}
	if _, err := authorization(e.options.Auth); err != nil {
		return err
	}
	e.client = newClient(e.options.Timeout, lanes, config, adjust)
	return nil
}

// Close implements [sink.Sink]. There is nothing to wait for.
func (e *Endpoint) Close(context.Context) error {
	e.client.close()
	return nil
}

// Where names the endpoint without what may be secret: a path or query may hold a token.
func (e *Endpoint) Where() string { return e.URL.Scheme + "://" + e.URL.Host }

// Write implements [sink.Sink] by send, which makes a request with the first of the events, and
// returns how many. After a refusal that may be about one of several, they go one by one.
func Write(ctx context.Context, batch []event.Event, send func(events []event.Event) (int, error)) (int, error) {
	done, single := 0, 0 // batch[:single] goes one by one
	for done < len(batch) {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		events := batch[done:]
		if done < single {
			events = events[:1]
		}
		n, err := send(events)
		if (sink.IsPermanent(err) || sink.IsUnknown(err)) && n > 1 {
			single = done + n // one of them is at fault; find out which
			continue
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// Compress compresses a body as the keys say, and notes the method in the header of that name.
func (e *Endpoint) Compress(body []byte, header http.Header, name string) ([]byte, error) {
	if e.options.Compression != compress.None {
		header.Set(name, string(e.options.Compression))
	}
	return e.encoder.Encode(body)
}

// Request makes a request with a body, which it does not copy, and the headers of the sink, to which
// it adds those of the keys.
func (e *Endpoint) Request(to *url.URL, header http.Header, body []byte) (*http.Request, error) {
	credential, err := authorization(e.options.Auth) // its file may have changed
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make request: url is not an address") // err would show it
	}
	request.Header = header
	header.Set("User-Agent", e.agent)
	// Without a value it is not sent: it lets the transport send the request again if the endpoint has closed
	// an idle connection meanwhile, which says nothing about either.
	header["Idempotency-Key"] = nil
	for name, value := range e.options.Headers {
		header.Set(name, value.Reveal())
	}
	if credential != "" {
		header.Set("Authorization", credential)
	}
	return request, nil
}

// Answer is what the endpoint answers to a request.
type Answer struct {
	*http.Response

	Text []byte // of the body, or its beginning
	Cut  error  // why Text is not all of it: the connection, the time, or more than [MaxAnswer]
}

// Post sends a request and reads the answer, for at most patience once its status is known. It blocks
// for at most the timeout of the keys. An error says that there is no answer.
func (e *Endpoint) Post(ctx context.Context, request *http.Request, patience time.Duration) (*Answer, error) {
	attempt, cancel := context.WithTimeout(ctx, e.options.Timeout)
	defer cancel()
	response, err := e.client.Do(request.WithContext(attempt))
	if err != nil {
		return nil, e.explain(ctx, attempt, err)
	}
	e.answers.Store(true)
	defer response.Body.Close()
	answer := &Answer{Response: response}
	if response.StatusCode == http.StatusSwitchingProtocols {
		// The body is the connection itself: a read from it ends with neither context nor deadline.
		return answer, nil
	}
	defer time.AfterFunc(patience, cancel).Stop()
	answer.Text, err = io.ReadAll(io.LimitReader(response.Body, MaxAnswer))
	if err != nil {
		answer.Cut = e.explain(ctx, attempt, err)
	} else if len(answer.Text) == MaxAnswer {
		answer.Cut = fmt.Errorf("post to %s: the answer has %d bytes or more", e.Where(), MaxAnswer)
	}
	return answer, nil
}

// explain says why a request of ctx, with the time of attempt, got no answer.
func (e *Endpoint) explain(ctx, attempt context.Context, err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("post to %s: %w", e.Where(), ctx.Err())
	case attempt.Err() != nil:
		return fmt.Errorf("post to %s: no answer within %v; check the endpoint, or raise timeout", e.Where(), e.options.Timeout)
	case errors.As(err, &certificate):
		return fmt.Errorf("post to %s: the endpoint's certificate is not trusted: %w; check tls.caFile, tls.serverName and the host in url", e.Where(), err)
	case !e.answers.Load(): // perhaps it speaks another protocol
		return fmt.Errorf("post to %s: %w; it has not answered yet: %s", e.Where(), err, e.kind.Address)
	}
	return fmt.Errorf("post to %s: %w", e.Where(), err)
}

// Render shows a request without what is secret in it. If the credential cannot be read, as on another
// machine than informd's, a note says so in place of it.
func (e *Endpoint) Render(newRequest func() (*http.Request, error)) (out sink.Rendered, err error) {
	if _, err := authorization(e.options.Auth); err != nil {
		out.Notes = append(out.Notes, "Authorization is missing here: "+err.Error())
		without := *e.options
		without.Auth = connection.Auth{}
		e.options = &without
	}
	request, err := newRequest()
	if err != nil {
		return sink.Rendered{}, err
	}
	out.To, out.Headers = request.Method+" "+e.Where(), shown(request.Header, e.options.Headers)
	if out.Body, err = io.ReadAll(request.Body); err != nil {
		return sink.Rendered{}, fmt.Errorf("read the body: %w", err)
	}
	return out, nil
}

// shown are the headers of a request, by name, without the values of own headers and of the
// credential.
func shown(headers http.Header, own map[string]sink.Secret) []sink.Header {
	secret := map[string]bool{"Authorization": true}
	for name := range own {
		secret[http.CanonicalHeaderKey(name)] = true
	}
	var all []sink.Header
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if len(headers[name]) == 0 {
			continue // it is not sent
		}
		h := sink.Header{Name: name, Value: strings.Join(headers[name], ", ")}
		if secret[name] {
			h.Value = "<redacted>"
		}
		all = append(all, h)
	}
	return all
}
