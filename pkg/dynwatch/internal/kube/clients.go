package kube

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// Clients are the connections to the API server, shared by all targets. The methods may be
// called concurrently.
type Clients struct {
	Config *rest.Config
	// Shared carries all other requests; with HTTP/2 it is one connection.
	Shared *http.Client
	// Other makes a new connection for each request: behind a load balancer it may reach another
	// API server, whose watch cache may have older revisions.
	Other *http.Client
	// Apart makes a connection for each watch and each list, with HTTP/1.1. Slots has a place
	// for each watch on it, Lists one for each list.
	Apart        *http.Client
	Slots, Lists chan struct{}
	// ShareUntil is the time until which no watch has a separate connection, in Unix nanoseconds.
	ShareUntil atomic.Int64
	// MaxDelay is how long the connection of a watch gathers events; 0: not at all.
	MaxDelay time.Duration
	// transports are those of the clients, as client-go made them.
	transports []http.RoundTripper
	// Identities reads the fields that identify an object, and renders none.
	Identities *frame.Normaliser
	Discovery  *Discovery
	// Fresh is discovery over a new connection each time.
	Fresh *Discovery
	Pace  *pace
	// Walks limits the requests of all targets for history walks.
	Walks     *rate.Limiter
	Logger    *slog.Logger
	Identity  *Identity
	Rollbacks *Rollbacks
	// dials count the connections of Shared, Other and Apart.
	dials dials
}

// warnings logs the API server's warnings, mostly deprecations. It sends them with every
// answer.
type warnings struct{ logger *slog.Logger }

// HandleWarningHeader logs one warning.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	w.logger.Debug("API server sent a warning", "code", code, "text", display.Reason(text))
}

// streamBuffer is the size of the receive buffer of one response. Go's default, 4 MiB for
// each HTTP/2 stream, would let 100 watches behind a full journal hold 400 MiB.
const streamBuffer = 256 << 10

// ApartWatches is the number of watches with a separate connection. It costs two thirds of a
// connection shared with HTTP/2, which acknowledges every 4 KiB and hands frames from
// goroutine to goroutine, and no watch is behind another one's frames. Further watches, for
// example of a wildcard over hundreds of resources, share one.
const ApartWatches = 64

// ApartLists is the number of lists of whole objects at the same time on separate
// connections, for the same reason. The watches that follow use these connections again.
const ApartLists = 4

// RefusedApart is the time for which no watch tries a separate connection after a refusal
// that the shared connection did not get: a proxy may speak HTTP/2 only.
const RefusedApart = time.Hour

// readSize is the number of bytes of an HTTP/1.1 connection per read: one record of TLS. Each
// watch has a buffer of this size.
const readSize = 16 << 10

// own returns a copy of the configuration with a transport that client-go's cache shares with
// no other client.
func own(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if t, ok := c.Transport.(*http.Transport); ok {
		c.Transport = t.Clone()
	}
	return c
}

// single is own for connections with HTTP/1.1. Unread bytes are in the kernel's buffer then,
// whose default limit may be many MiB. HTTP/1.1 has no pings, so the kernel's keepalive
// detects a dead peer.
func single(config *rest.Config) *rest.Config {
	c := own(config)
	c.NextProtos = []string{"http/1.1"}
	dial := c.Dial
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			alive := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 6}
			err = errors.Join(tcp.SetReadBuffer(streamBuffer), tcp.SetKeepAliveConfig(alive))
			if err != nil {
				err = errors.Join(err, conn.Close())
				conn = nil
			}
		}
		return conn, err
	}
	return c
}

// limitBuffers limits the bytes that a transport holds.
func limitBuffers(t *http.Transport) {
	t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: streamBuffer}
	t.ReadBufferSize = readSize
	t.MaxIdleConnsPerHost = ApartWatches + ApartLists // a watch that follows another one has its connection
}

// newClient makes a client of a configuration.
func (c *Clients) newClient(config *rest.Config, change func(*http.Transport)) (*http.Client, error) {
	wrapped := rest.CopyConfig(config)
	wrapped.WrapTransport = transport.Wrappers(func(rt http.RoundTripper) http.RoundTripper {
		c.transports = append(c.transports, rt)
		if t := TransportOf(rt); t != nil {
			change(t)
		}
		return rt
	}, config.WrapTransport) // the first one is innermost
	client, err := rest.HTTPClientFor(wrapped)
	if err != nil {
		return nil, err
	}
	client.Transport = shortFailures{client.Transport}
	return client, nil
}

// NewClients connects to nothing yet. The caller closes the clients.
func NewClients(config *rest.Config, logger *slog.Logger) (*Clients, error) {
	base := rest.CopyConfig(config)
	base.QPS = -1 // 300 targets must not queue behind each other at the start
	// WatchList and watch responses are compressed for the life of the
	// connection if the client accepts it; gunzip costs more than all the rest.
	base.DisableCompression = true
	base.WarningHandler = warnings{logger}
	base.UserAgent = cmp.Or(base.UserAgent, rest.DefaultKubernetesUserAgent())
	c := &Clients{
		Config: base, Rollbacks: newRollbacks(), Slots: make(chan struct{}, ApartWatches), Lists: make(chan struct{}, ApartLists), Pace: newPace(), Logger: logger,
		Walks:      newBudget(WalkRequests),
		Identities: frame.NewNormaliser("", "", frame.Options{Wants: func(string) bool { return false }}),
	}
	var err error
	if err = c.connect(base); err != nil {
		return nil, err
	}
	if c.Discovery, err = newDiscovery(base, c.Shared); err != nil {
		return nil, err
	}
	if c.Fresh, err = newDiscovery(base, c.Other); err != nil {
		return nil, err
	}
	// The connections that check the identity are not counted: they would need a check.
	prober, err := c.newClient(own(base), oneRequest)
	if err != nil {
		return nil, err
	}
	probes, err := newDiscovery(base, prober)
	if err != nil {
		return nil, err
	}
	c.Identity = newIdentity(c.Discovery.Client, probes.Client, &c.dials, logger)
	return c, nil
}

// connect makes the clients of all requests except those that check the identity.
func (c *Clients) connect(base *rest.Config) (err error) {
	counted := func(change func(*http.Transport)) func(*http.Transport) {
		return func(t *http.Transport) {
			change(t)
			c.dials.track(t)
		}
	}
	if c.Shared, err = c.newClient(own(base), counted(limitBuffers)); err != nil {
		return err
	}
	if c.Other, err = c.newClient(own(base), counted(oneRequest)); err != nil {
		return err
	}
	if c.Apart, err = c.newClient(single(base), counted(limitBuffers)); err != nil {
		return err
	}
	apart := c.transports[len(c.transports)-1]
	c.dials.uncounted = TransportOf(apart) == nil
	if t := TransportOf(apart); t != nil {
		gatherOver(t, func() *http.Transport { return TransportOf(apart) })
	}
	return nil
}

// oneRequest makes a transport open one connection per request, with HTTP/2 as well.
func oneRequest(t *http.Transport) {
	limitBuffers(t)
	t.DisableKeepAlives = true
}

// TakeSlot reports whether a watch gets a separate connection, until ctx ends.
func (c *Clients) TakeSlot(ctx context.Context) bool {
	taken := c.TakePlace(c.Slots)
	if taken {
		context.AfterFunc(ctx, func() { <-c.Slots })
	}
	return taken
}

// TakePlace takes one of the places on separate connections, if one is free.
func (c *Clients) TakePlace(places chan struct{}) bool {
	if time.Now().UnixNano() < c.ShareUntil.Load() {
		return false
	}
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// Share makes new watches share a connection for RefusedApart.
func (c *Clients) Share() { c.ShareUntil.Store(time.Now().Add(RefusedApart).UnixNano()) }

// Close closes all connections. The clients cannot be used any more. Closing idle ones is not
// enough: a connection with HTTP/2 whose last request was cancelled a moment ago is not idle yet, and
// would stay open for ever.
func (c *Clients) Close() {
	c.CloseIdle()
	c.dials.end()
}

// CloseIdle closes the connections that no request uses. [http.Client.CloseIdleConnections] does not
// reach the transport: client-go's wrappers have no such method.
func (c *Clients) CloseIdle() {
	for _, rt := range c.transports {
		if t := TransportOf(rt); t != nil {
			t.CloseIdleConnections()
		}
	}
}
