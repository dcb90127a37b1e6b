package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/page"
	"github.com/informd/informd/pkg/connection"
)

// Options say where the server listens and whom it asks. The functions are
// called for each request, concurrently.
type Options struct {
	// Admin says where the server listens, and who may ask it.
	config.Admin
	// SocketOptional: informd runs without a socket that it cannot make.
	SocketOptional   bool
	Version, Cluster string
	Targets          func() []Target
	Sinks            func() []deliver.Status
	// DeadLetters returns [Status.DeadLetters].
	DeadLetters func() map[string]uint64
	Journal     func() Journal
	// Config describes the config in use.
	Config func() *Config
	// Follower describes this informd while it follows a leader; nil while it leads. It and the next
	// two are nil without replicas.
	Follower func() *Follower
	// Forward returns what serves a look at objects in place of Operator while this informd follows a
	// leader; else, or if the leader would refuse, nil.
	Forward func() http.Handler
	// Log serves the log to replicas, nil if there are none.
	Log http.Handler
	// Operator serves requests that change something; nil refuses them.
	Operator Operator
	Metrics  prometheus.Gatherer
	Logger   *slog.Logger
}

// Server is the admin server.
type Server struct {
	options Options
	started time.Time
	refused *prometheus.CounterVec
	closed  prometheus.Counter
	warned  minutely
	running []running
	address string
	page    http.Handler
	samples page.Samples
	// sampled is closed when the sampling of a started server has ended.
	sampled chan struct{}
	// ending ends when the server shuts down: no request without an end may hold that up.
	ending context.Context //nolint:containedctx // the lifetime of the server
	end    context.CancelFunc
}

// running is a listener with its server.
type running struct {
	http   *http.Server
	served chan struct{} // closed when serving has ended
}

// New makes a server; it does not listen yet.
func New(o Options) *Server {
	s := &Server{options: o, started: time.Now(), refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "informd_admin_refused_total", Help: "Requests that the admin server refused, by reason.",
	}, []string{"reason"}), closed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "informd_admin_connections_closed_total", Help: "Connections that the admin server closed, because too many were open.",
	})}
	s.ending, s.end = context.WithCancel(context.Background())
	s.page = s.newPage()
	return s
}

// Collectors are the server's own metrics.
func (s *Server) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.refused, s.closed}
}

// handler serves the requests that come through a door.
func (s *Server) handler(d *door) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /status", s.guarded(d.reading, s.limited(maxReaders, http.HandlerFunc(s.status))))
	// A compressor takes about 1 MiB of memory, for an answer of some 100 KiB.
	scraped := promhttp.HandlerFor(s.options.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxReaders, DisableCompression: true})
	mux.Handle("GET /metrics", s.guarded(d.reading, scraped))
	for _, pattern := range []string{"GET /{$}", "GET /page/"} {
		mux.Handle(pattern, s.guarded(d.reading, s.page))
	}
	if s.options.Operator != nil {
		s.operate(mux, d)
	}
	if s.options.Log != nil {
		mux.Handle("GET /log", s.guarded(d.copying, s.options.Log))
	}
	return mux
}

// guarded serves the requests that check does not refuse.
func (s *Server) guarded(check func(*http.Request) *refusal, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused := check(r)
		if refused == nil {
			next.ServeHTTP(w, r)
			return
		}
		s.refused.WithLabelValues(refused.reason).Inc()
		if s.warned.first() {
			s.options.Logger.Warn("admin request refused", "path", r.URL.Path, "peer", r.RemoteAddr, "reason", refused.text,
				"next", "informd logs one line per minute; informd_admin_refused_total counts all")
		}
		http.Error(w, refused.text, refused.code)
	})
}

// Start begins to listen and serves in the background. An address that cannot be
// used, or files that are not sound, are an error here.
func (s *Server) Start() error {
	err := s.startTCP()
	if err == nil {
		err = s.startSocket()
	}
	if err != nil {
		return errors.Join(err, s.close())
	}
	s.sampled = make(chan struct{})
	go s.sample()
	return nil
}

func (s *Server) startTCP() error {
	o, files := s.options, TLS(s.options.TLS)
	if o.Listen == "" {
		return nil
	}
	host, _, _ := net.SplitHostPort(o.Listen)
	h := s.newHTTP(&door{encrypted: files.Wanted(), local: connection.Loopback(host), hosts: o.Hosts, tokenFile: o.TokenFile})
	serve := h.Serve
	if files.Wanted() {
		var err error
		if h.TLSConfig, err = files.serve(o.Logger); err != nil {
			return fmt.Errorf("serve admin on %s: %w", o.Listen, err)
		}
		serve = func(l net.Listener) error { return h.ServeTLS(l, "", "") }
	}
	if o.TokenFile != "" {
		if _, err := ReadToken(o.TokenFile); err != nil {
			return fmt.Errorf("serve admin on %s: %w", o.Listen, err)
		}
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("serve admin on %s: %w: choose another with admin.listen or --admin-listen", o.Listen, err)
	}
	s.address = l.Addr().String()
	s.run(h, l, serve)
	return nil
}

func (s *Server) startSocket() error {
	if s.options.Socket == "" {
		return nil
	}
	l, err := listenSocket(s.options.Socket)
	switch {
	case err == nil:
		h := s.newHTTP(&door{socket: true})
		s.run(h, l, h.Serve)
		return nil
	case s.options.SocketOptional:
		s.options.Logger.Warn("admin socket unavailable; commands over it fail (set admin.socket)", "path", s.options.Socket, "err", err)
		return nil
	default:
		return fmt.Errorf("serve admin on admin.socket %s: %w", s.options.Socket, err)
	}
}

func (s *Server) newHTTP(d *door) *http.Server {
	return &http.Server{
		Handler:           s.handler(d),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:       slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
}

// run serves in the background.
func (s *Server) run(h *http.Server, l net.Listener, serve func(net.Listener) error) {
	bound := &conns{Listener: l, logger: s.options.Logger, closed: s.closed, open: make(map[net.Conn]usage)}
	served := make(chan struct{})
	s.running = append(s.running, running{h, served})
	go func() {
		defer close(served)
		if err := serve(bound); !errors.Is(err, http.ErrServerClosed) {
			s.options.Logger.Error("admin server stopped; restart informd", "err", err)
		}
	}()
}

// Address is where a started server listens over TCP, empty if it does not.
func (s *Server) Address() string { return s.address }

// Shutdown ends the server; requests under way have until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	var errs []error
	for _, one := range s.running {
		if err := one.http.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("shut down admin server: %w", err), one.http.Close())
		}
		<-one.served
	}
	if s.sampled != nil {
		select {
		case <-s.sampled:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("shut down admin server: %w", ctx.Err()))
		}
	}
	return errors.Join(errs...)
}

// close ends the server at once.
func (s *Server) close() error {
	s.end()
	var errs []error
	for _, one := range s.running {
		errs = append(errs, one.http.Close())
		<-one.served
	}
	return errors.Join(errs...)
}
