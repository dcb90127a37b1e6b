package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Gateway is a running proxy. All methods are safe for concurrent use.
type Gateway struct {
	server   *http.Server
	listener *freezer
	running  sync.WaitGroup
	handlers sync.WaitGroup
	servers  []*apiServer

	mu       sync.Mutex
	random   *rand.Rand
	live     []int // indexes of the servers that get requests
	behavior Behavior
	changed  chan struct{} // closed when the behavior changes
	answered map[int]int   // HTML pages by status
}

// apiServer is a server behind the gateway.
type apiServer struct {
	host      *url.URL
	transport *http.Transport
}

// Options of a gateway.
type Options struct {
	// Client is how the gateway logs in to the API servers; its Host is ignored.
	Client *rest.Config
	// Hosts are the host:ports of the API servers.
	Hosts []string
	// Certificate is what the gateway shows to its clients.
	Certificate tls.Certificate
	// Seed is of the choice of the API server for each request.
	Seed uint64
}

// New starts a gateway on a loopback port. The caller has to Close it.
func New(options Options) (*Gateway, error) {
	g := &Gateway{
		random: rand.New(rand.NewPCG(options.Seed, 0)), changed: make(chan struct{}), answered: make(map[int]int),
	}
	secure, err := rest.TLSConfigFor(options.Client)
	if err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	for i, host := range options.Hosts {
		g.live = append(g.live, i)
		g.servers = append(g.servers, &apiServer{
			host: &url.URL{Scheme: "https", Host: host},
			transport: &http.Transport{
				TLSClientConfig: secure.Clone(), ForceAttemptHTTP2: true, DisableCompression: true, // the client decides on both
			},
		})
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	g.listener = newFreezer(listener)
	g.server = &http.Server{
		Handler: http.HandlerFunc(g.serve), ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	g.server.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{options.Certificate},
		GetConfigForClient: g.protocols,
	}
	g.running.Go(func() { _ = g.server.ServeTLS(g.listener, "", "") }) // ends with Close
	return g, nil
}

// Address returns the host:port that the gateway listens on.
func (g *Gateway) Address() string { return g.listener.Addr().String() }

// Close ends the gateway and all its connections.
func (g *Gateway) Close() error {
	g.listener.Thaw()
	err := g.server.Close()
	g.running.Wait()
	g.handlers.Wait()
	for _, s := range g.servers {
		s.transport.CloseIdleConnections()
	}
	return err
}

// Behave makes the gateway behave differently from now on, towards responses that
// it is sending, too. The zero Behavior is a sound gateway.
func (g *Gateway) Behave(b Behavior) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.behavior = b
	g.listener.CloseIdle(b.Idle)
	close(g.changed)
	g.changed = make(chan struct{})
}

// Route sends requests to these API servers only, given by their indexes. Without
// any, requests are answered with 502.
func (g *Gateway) Route(servers ...int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live = slices.Clone(servers)
}

// Freeze stops the gateway as SIGSTOP does: connections stay open and silent, new
// ones are accepted and silent. Thaw ends it.
func (g *Gateway) Freeze() { g.listener.Freeze() }

// Thaw lets a frozen gateway continue.
func (g *Gateway) Thaw() { g.listener.Thaw() }

// Answered returns how many HTML pages with a status the gateway has answered.
func (g *Gateway) Answered(status int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answered[status]
}

func (g *Gateway) now() (Behavior, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.behavior, g.changed
}

// pick chooses an API server for a request; false: none is live.
func (g *Gateway) pick() (int, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.live) == 0 {
		return 0, false
	}
	return g.live[g.random.IntN(len(g.live))], true
}

// protocols is the TLS configuration of one new connection.
func (g *Gateway) protocols(*tls.ClientHelloInfo) (*tls.Config, error) {
	b, _ := g.now()
	if !b.HTTP1 {
		return nil, nil //nolint:nilnil // tls: keep the configuration of the server
	}
	config := g.server.TLSConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	return config, nil
}

// serve handles one request.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	g.handlers.Add(1)
	defer g.handlers.Done()
	b, _ := g.now()
	i, ok := g.pick()
	switch {
	case !ok:
		g.page(w, http.StatusBadGateway)
		return
	case b.concerns(r, i):
		g.page(w, b.Status)
		return
	}
	response, err := g.servers[i].roundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
		g.page(w, http.StatusBadGateway)
		return
	}
	if isWatch(r) && response.StatusCode == http.StatusOK && strings.Contains(response.Header.Get("Content-Type"), "json") {
		response.Body = g.stuckAtTimes(r, response.Body, i)
	}
	defer response.Body.Close()
	if !b.delay(r.Context()) {
		panic(http.ErrAbortHandler)
	}
	if err := g.forward(w, r, response); err != nil {
		panic(http.ErrAbortHandler) // the client must not take the response for whole
	}
}

// page answers as proxies do: in HTML, without a word of Kubernetes.
func (g *Gateway) page(w http.ResponseWriter, status int) {
	g.mu.Lock()
	g.answered[status]++
	g.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	fmt.Fprintf(w, "<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n<center><h1>%s</h1></center>\r\n<hr><center>gateway</center>\r\n</body>\r\n</html>\r\n", title, title)
}

// roundTrip sends a request on to the API server.
func (s *apiServer) roundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = s.host.Scheme, s.host.Host
	out.Host, out.RequestURI = "", ""
	if r.ContentLength == 0 {
		out.Body = nil
	}
	dropHopByHop(out.Header)
	return s.transport.RoundTrip(out)
}

// dropHopByHop removes the headers that are about one connection only.
func dropHopByHop(h http.Header) {
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		h.Del(name)
	}
}

var errIdle = errors.New("the response was idle for too long")
