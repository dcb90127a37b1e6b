// Package endpoint has what sinks over HTTP have in common: the checks of their keys, the
// client and its connections, the credential, and what an answer says of events. Packages
// webhook and otlp call it; it knows no events and no body.
package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

const (
	// maxAnswer is how much of an answer is read, so that the connection can be
	// used again; more costs the connection.
	maxAnswer = 64 << 10
	// drainTimeout is how long that may take once the status is known.
	drainTimeout = time.Second
	// maxHeaderBytes is the limit of the headers of an answer.
	maxHeaderBytes = 64 << 10
	idleTimeout    = 90 * time.Second
)

// Client is the client of one endpoint. Its methods may be called concurrently.
type Client struct {
	*http.Client

	where   string // the scheme and the host: a path or query may hold a token
	timeout time.Duration
}

// NewClient makes a client for requests to the address, of which at most lanes are sent at a
// time and each may take as long as timeout. It follows no redirects and keeps no cookies.
// Adjust may change its transport.
func NewClient(to *url.URL, timeout time.Duration, lanes int, config *tls.Config, adjust func(*http.Transport, *net.Dialer)) *Client {
	dialer := &net.Dialer{Timeout: timeout}
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: config,
		// A request that ends does not end the making of its connection, which
		// later requests could use: it needs limits of its own.
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: timeout,
		// All requests share one HTTP/2 connection, and a timeout ends only the
		// request: who finds out that the connection is dead is the ping.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: timeout, PingTimeout: timeout},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // of answers, which nobody reads
		MaxIdleConnsPerHost:    lanes,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	adjust(transport, dialer)
	return &Client{
		Client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		where:   Where(to),
		timeout: timeout,
	}
}

// Where names an endpoint without what may be secret.
func Where(to *url.URL) string { return to.Scheme + "://" + to.Host }

// Send sends the request, and once more if it fails on a connection that was idle: endpoints close
// those when they like, also while a request is on its way, which says nothing about either.
func (c *Client) Send(request *http.Request) (*http.Response, error) {
	idle := false
	ctx := httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GotConn: func(conn httptrace.GotConnInfo) { idle = conn.WasIdle },
	})
	response, err := c.Do(request.WithContext(ctx))
	if err == nil || !idle || ctx.Err() != nil || BeyondPeer(err) {
		return response, err
	}
	c.CloseIdleConnections() // the endpoint may have closed them, too
	if request.Body, err = request.GetBody(); err != nil {
		return nil, err
	}
	return c.Do(request)
}

// BeyondPeer reports whether the client has not sent a request because its headers are longer
// than the endpoint announced over HTTP/2. net/http has no type for that error.
func BeyondPeer(err error) bool {
	return strings.Contains(err.Error(), "request header list larger than peer's advertised limit")
}

// ReadAnswer reads what is worth reading of a body, and returns the beginning.
// Errors do not matter: the status has been read. If the body takes too long, it
// calls cancel and closes the body.
func ReadAnswer(body io.ReadCloser, cancel context.CancelFunc) []byte {
	defer time.AfterFunc(drainTimeout, func() {
		cancel()
		_ = body.Close()
	}).Stop()
	var answer bytes.Buffer
	_, _ = io.CopyN(&answer, body, maxAnswer)
	return answer.Bytes()
}

// Explain says why a request of ctx, with the time of attempt, got no answer.
func (c *Client) Explain(ctx, attempt context.Context, err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("post to %s: %w", c.where, ctx.Err())
	case attempt.Err() != nil:
		return fmt.Errorf("post to %s: no answer within %v; check the endpoint, or raise timeout", c.where, c.timeout)
	case errors.As(err, &certificate):
		return fmt.Errorf("post to %s: the endpoint's certificate is not trusted: %w; check tls.caFile, tls.serverName and the host in url", c.where, err)
	}
	return fmt.Errorf("post to %s: %w", c.where, err)
}
