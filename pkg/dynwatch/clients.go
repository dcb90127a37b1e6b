package dynwatch

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// clients are the connections to the API server, shared by all targets.
type clients struct {
	config *rest.Config
	// shared carries everything; with HTTP/2 it is one connection.
	shared *http.Client
	// other has a new connection for each request: behind a load balancer it may reach
	// another API server, whose watch cache may reach further back.
	other *http.Client
	// apart has a connection for each watch and each list, with HTTP/1.1; slots has a
	// place for each watch that is on it, lists one for each list.
	apart        *http.Client
	slots, lists chan struct{}
	// shareUntil is until when no watch has one, in Unix nanoseconds.
	shareUntil atomic.Int64
	// transports are those of the clients, as client-go made them.
	transports []http.RoundTripper
	// identities reads what identifies objects, and renders none.
	identities *frame.Normaliser
	discovery  *discovery
	// fresh is discovery over a new connection each time.
	fresh *discovery
	pace  *pace
	// ranges and walks bound the requests of all targets for lost history, see retrace.go
	// and walk.go.
	ranges, walks *budget
	logger        *slog.Logger
	identity      *clusterIdentity
	// dials count the connections of shared, other and apart.
	dials dials
}

// warnings logs what the API server says beside its answers, deprecations mostly.
// It says so with every request.
type warnings struct{ logger *slog.Logger }

func (w warnings) HandleWarningHeader(code int, _, text string) {
	w.logger.Debug("the API server warns", "code", code, "warning", text)
}

// streamBuffer is how many bytes of one response may wait to be read. Go's
// default, 4 MiB for each HTTP/2 stream, would let 100 watches that a full
// journal holds back fill 400 MiB.
const streamBuffer = 256 << 10

// apartWatches is how many watches have a connection each. Reading them costs two thirds
// of what it does over a connection that is shared with HTTP/2, which acknowledges every
// 4 KiB and hands frames from goroutine to goroutine, and none of them is behind another
// one's frames. Those beyond, as a wildcard over hundreds of resources brings them, share one.
const apartWatches = 64

// apartLists is how many lists of whole objects at a time are read over connections of
// their own, for the same reason. The watches that follow use them again.
const apartLists = 4

// refusedApart is for how long no watch is tried on a connection of its own after one
// was refused that the shared connection then took: a proxy may speak HTTP/2 alone.
const refusedApart = time.Hour

// readSize is how many bytes of a connection with HTTP/1.1 are read at a time: two records
// of TLS.
const readSize = 32 << 10

// own returns a copy of the configuration with a transport that client-go's cache does not
// share with anyone.
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

// single is own for connections with HTTP/1.1. What waits to be read is in the kernel's
// buffer then, whose limit may be many MiB; and there are no pings, so that the kernel has
// to find out that the other end is gone.
func single(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.NextProtos = []string{"http/1.1"}
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
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
	return own(c)
}

// transportOf finds the transport beneath client-go's wrappers, nil if there is none.
func transportOf(rt http.RoundTripper) *http.Transport {
	for {
		switch t := rt.(type) {
		case *http.Transport:
			return t
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			rt = t.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

// limitBuffers limits what a transport holds of the answers.
func limitBuffers(t *http.Transport) {
	t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: streamBuffer}
	t.ReadBufferSize = readSize
	t.MaxIdleConnsPerHost = apartWatches + apartLists // a watch that follows another one has its connection
}

// newClient makes a client of a configuration.
func (c *clients) newClient(config *rest.Config, change func(*http.Transport)) (*http.Client, error) {
	wrapped := rest.CopyConfig(config)
	wrapped.WrapTransport = transport.Wrappers(func(rt http.RoundTripper) http.RoundTripper {
		c.transports = append(c.transports, rt)
		if t := transportOf(rt); t != nil {
			change(t)
		}
		return rt
	}, config.WrapTransport) // the first one is innermost
	client, err := rest.HTTPClientFor(wrapped)
	if err != nil {
		return nil, err
	}
	client.Transport = retryAfter{client.Transport}
	return client, nil
}

func newClients(config *rest.Config, logger *slog.Logger) (*clients, error) {
	base := rest.CopyConfig(config)
	base.QPS = -1 // 300 targets must not queue behind each other at the start
	// WatchList and watch responses are compressed for the life of the
	// connection if the client accepts it; gunzip costs more than all the rest.
	base.DisableCompression = true
	base.WarningHandler = warnings{logger}
	if base.UserAgent == "" {
		base.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	c := &clients{
		config: base, slots: make(chan struct{}, apartWatches), lists: make(chan struct{}, apartLists), pace: newPace(), logger: logger,
		ranges: newBudget(rangeRequests, historyPeriod), walks: newBudget(walkRequests, historyPeriod),
		identities: frame.NewNormaliser("", "", nil).Only(func(string) bool { return false }),
	}
	var err error
	if err = c.connect(base); err != nil {
		return nil, err
	}
	if c.discovery, err = newDiscovery(base, c.shared); err != nil {
		return nil, err
	}
	if c.fresh, err = newDiscovery(base, c.other); err != nil {
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
	c.identity = newIdentity(c.discovery.client, probes.client, &c.dials, logger)
	return c, nil
}

// connect makes the clients of all requests but those that check the identity.
func (c *clients) connect(base *rest.Config) (err error) {
	counted := func(change func(*http.Transport)) func(*http.Transport) {
		return func(t *http.Transport) {
			change(t)
			c.dials.track(t)
		}
	}
	if c.shared, err = c.newClient(own(base), counted(limitBuffers)); err != nil {
		return err
	}
	if c.other, err = c.newClient(own(base), counted(oneRequest)); err != nil {
		return err
	}
	c.apart, err = c.newClient(single(base), counted(limitBuffers))
	return err
}

// oneRequest has a transport make one request over each connection, with HTTP/2 as well.
func oneRequest(t *http.Transport) {
	limitBuffers(t)
	t.DisableKeepAlives = true
}

// takeSlot reports whether a watch may have a connection of its own, until ctx ends.
func (c *clients) takeSlot(ctx context.Context) bool {
	taken := c.takePlace(c.slots)
	if taken {
		context.AfterFunc(ctx, func() { <-c.slots })
	}
	return taken
}

// takePlace takes one of the places on connections of their own, if one is free.
func (c *clients) takePlace(places chan struct{}) bool {
	if time.Now().UnixNano() < c.shareUntil.Load() {
		return false
	}
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// share has watches share a connection for some time.
func (c *clients) share() { c.shareUntil.Store(time.Now().Add(refusedApart).UnixNano()) }

// close closes the connections that no request uses. [http.Client.CloseIdleConnections]
// does not reach the transport: client-go's wrappers do not pass it on.
func (c *clients) close() {
	for _, rt := range c.transports {
		if t := transportOf(rt); t != nil {
			t.CloseIdleConnections()
		}
	}
}
