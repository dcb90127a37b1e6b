package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxHeaderBytes is the limit of the headers of an answer.
	maxHeaderBytes = 64 << 10
	idleTimeout    = 90 * time.Second
)

// client is the client of one endpoint. Its methods may be called concurrently.
type client struct {
	*http.Client

	conns *conns
}

// newClient makes a client for requests, of which at most lanes are sent at a time and each may take
// as long as timeout. It follows no redirects and keeps no cookies.
// Adjust may change its transport.
func newClient(timeout time.Duration, lanes int, config *tls.Config, adjust func(*http.Transport, *net.Dialer)) *client {
	dialer, open := &net.Dialer{Timeout: timeout}, &conns{open: map[*conn]struct{}{}}
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: config,
		// A request that ends does not end the making of its connection, which
		// later requests could use: it needs limits of its own.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return open.add(dialer.DialContext(ctx, network, address))
		},
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
	return &client{
		Client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		conns: open,
	}
}

// close closes all connections, at once. No request may be running or follow.
func (c *client) close() {
	c.CloseIdleConnections()
	c.conns.close()
}

// conns are the open connections of a client. The transport closes idle ones only: an HTTP/2
// connection over which a request has just ended would stay open until the endpoint closes it.
type conns struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool // what is being made meanwhile is closed at once
}

type conn struct {
	net.Conn

	all *conns
}

func (c *conns) add(dialed net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	added := &conn{dialed, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(net.ErrClosed, dialed.Close())
	}
	c.open[added] = struct{}{}
	return added, nil
}

func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	left := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, one := range left {
		_ = one.Close() // what it says helps nobody any more
	}
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// BeyondPeer reports whether the client has not sent a request because its headers are longer
// than the endpoint announced over HTTP/2. net/http has no type for that error.
func BeyondPeer(err error) bool {
	return strings.Contains(err.Error(), "request header list larger than peer's advertised limit")
}
