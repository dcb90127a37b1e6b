package admin

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxConns bounds the open connections of a listener, 10 MiB with their buffers.
	maxConns = 256
	// maxStreams bounds the requests of one connection with HTTP/2.
	maxStreams = 8
	// maxHeader bounds the header of a request, in bytes.
	maxHeader = 16 << 10
	// maxReaders bounds the answers of one kind under way: each is as large as the status.
	maxReaders = 4
)

// conns is a listener with a bound of open connections. Beyond the bound it closes a
// connection of the peer that has the most of them, the oldest first. So a peer that floods
// informd shuts out itself, and not the probes of the kubelet.
type conns struct {
	net.Listener
	logger *slog.Logger
	closed prometheus.Counter
	warned minutely

	mu   sync.Mutex
	open map[net.Conn]usage
}

// usage is what is known of an open connection.
type usage struct {
	peer  string
	since time.Time
}

// counted is a connection that leaves its listener's count when it is closed.
type counted struct {
	net.Conn
	of *conns
}

func (c *conns) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	peer := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(peer); err == nil {
		peer = host
	}
	one := &counted{conn, c}
	if excess := c.add(one, peer); excess != nil {
		c.closed.Inc()
		if c.warned.first() {
			c.logger.Warn("too many admin connections; the excess is closed", "count", maxConns, "peer", excess.RemoteAddr().String(),
				"next", "informd logs one line per minute; informd_admin_connections_closed_total counts all")
		}
		_ = excess.Close() // the peer sees it
	}
	return one, nil
}

// add counts a connection and returns the one to close for it, nil if none has to be.
func (c *conns) add(conn net.Conn, peer string) (excess net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = usage{peer, time.Now()}
	if len(c.open) <= maxConns {
		return nil
	}
	peers := make(map[string]int)
	for _, u := range c.open {
		peers[u.peer]++
	}
	for one, u := range c.open {
		last := c.open[excess]
		if more := peers[u.peer] - peers[last.peer]; excess == nil || more > 0 || more == 0 && u.since.Before(last.since) {
			excess = one
		}
	}
	delete(c.open, excess)
	return excess
}

func (c *counted) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// limited serves at most so many requests at a time and refuses more.
func (s *Server) limited(most int, next http.Handler) http.Handler {
	turns := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			next.ServeHTTP(w, r)
		default:
			s.refused.WithLabelValues("busy").Inc()
			http.Error(w, "too many requests at a time: ask again", http.StatusServiceUnavailable)
		}
	})
}

// minutely is true once a minute.
type minutely struct{ last atomic.Int64 }

func (m *minutely) first() bool {
	now, last := time.Now().Unix(), m.last.Load()
	return now-last >= 60 && m.last.CompareAndSwap(last, now)
}
