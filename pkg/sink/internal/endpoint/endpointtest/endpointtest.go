// Package endpointtest is an HTTP server for the tests of sinks over HTTP, and runs package sinktest
// with it.
package endpointtest

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// Request is what an endpoint got.
type Request struct {
	Path, Proto string
	Header      http.Header
	Body        []byte // as it was sent
	Plain       []byte // before the compression that Content-Encoding names
}

// Behaviour answers the n-th request, counted from 0, and says whether the endpoint keeps it.
type Behaviour func(n int, w http.ResponseWriter, r Request) (keep bool)

// Server is a real HTTP server that keeps what it accepts. Its methods may be called concurrently.
type Server struct {
	*httptest.Server

	behave Behaviour

	mu          sync.Mutex
	kept, tried []Request
}

// Unstarted returns a server that ends with the test.
func Unstarted(t *testing.T, behave Behaviour) *Server {
	t.Helper()
	s := &Server{behave: behave}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(t.Output(), nil), slog.LevelInfo)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	plain, err := Unpack(r.Header.Get("Content-Encoding"), body)
	if err != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	got := Request{r.URL.Path, r.Proto, r.Header, body, plain}
	s.mu.Lock()
	n := len(s.tried)
	s.tried = append(s.tried, got)
	s.mu.Unlock()
	if !s.behave(n, w, got) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Context().Err() == nil {
		s.kept = append(s.kept, got)
	}
}

// Requests returns what the server has kept, and all that it got.
func (s *Server) Requests() (kept, tried []Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept), slices.Clone(s.tried)
}

// CAFile writes the server's own certificate, which signs itself.
func (s *Server) CAFile(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ca.pem")
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Unpack undoes a compression, of which an encoding is the name.
func Unpack(encoding string, body []byte) ([]byte, error) {
	packed := strings.NewReader(string(body))
	switch encoding {
	case "gzip":
		r, err := gzip.NewReader(packed)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return body, nil
}

// SameAsSent compares what a sink renders with what it has sent: the body, and every header but those that the transport
// adds. The values of some headers are secret.
func SameAsSent(t *testing.T, sent Request, rendered sink.Rendered, secret ...string) {
	t.Helper()
	want, got := sent.Header.Clone(), http.Header{}
	want.Del("Content-Length")
	want.Del("Accept-Encoding")
	for _, name := range append(secret, "Authorization") {
		if want.Get(name) != "" {
			want.Set(name, "<redacted>")
		}
	}
	for _, h := range rendered.Headers {
		got.Set(h.Name, h.Value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-sent +rendered):\n%s", diff)
	}
	if diff := cmp.Diff(string(sent.Body), string(rendered.Body)); diff != "" {
		t.Errorf("body (-sent +rendered):\n%s", diff)
	}
}

// Target is a sink type over HTTP.
type Target struct {
	Lanes     int
	Unstarted func(t *testing.T, behave Behaviour) *Server
	Open      func(t *testing.T, url string) sink.Sink
	Records   func(t *testing.T, s *Server) []sinktest.Record
	Names     func(t *testing.T, r Request) []string             // of the objects of its events
	Answer    func(w http.ResponseWriter, r Request, status int) // or with what corresponds to it
}

// Run runs package sinktest.
func Run(t *testing.T, target Target) {
	t.Helper()
	sinktest.Run(t, sinktest.Target{
		Lanes: target.Lanes,
		Setup: func(t *testing.T) *sinktest.Destination {
			t.Helper()
			return target.destination(t)
		},
		IgnoreGoroutines: []goleak.Option{
			goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
			goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
			goleak.IgnoreAnyFunction("net/http.(*http2serverConn).serve"),
			goleak.IgnoreAnyFunction("net/http.(*http2serverConn).readFrames"),
		},
	})
}

func (target Target) destination(t *testing.T) *sinktest.Destination {
	t.Helper()
	m := &moods{target: target, room: -1, busy: map[net.Conn]bool{}}
	server := target.Unstarted(t, func(_ int, w http.ResponseWriter, r Request) bool { return m.behave(t, w, r) })
	server.Config.ConnState, server.Config.Handler = m.note, m.wrap(server)
	server.Start()
	var last sink.Sink
	return &sinktest.Destination{
		Open: func(t *testing.T) sink.Sink {
			t.Helper()
			last = target.Open(t, server.URL)
			return settled{last, m}
		},
		Received: func(t *testing.T) []sinktest.Record {
			t.Helper()
			return target.Records(t, server)
		},
		Break: func(_ *testing.T, after int) { m.set(after, false) },
		Stall: func(*testing.T) { m.set(-1, true) },
		Heal:  func(*testing.T) { m.set(-1, false) },
		Poison: func(t *testing.T) event.Event {
			t.Helper()
			// Only an endpoint that has taken something can refuse something else.
			good := sinktest.Events(1)
			good[0].Name = "appetizer"
			if _, err := last.Write(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			p := sinktest.Events(1)[0]
			p.ID, p.UID, p.Name = "uid-poison:1", "uid-poison", "poison"
			return p
		},
	}
}

// moods is what the conformance suite asks of a destination.
type moods struct {
	target Target

	mu     sync.Mutex
	room   int           // events it still takes; negative is no limit
	healed chan struct{} // closed by Heal; nil if not stalled
	// busy are the connections on which a request is, true, or may be about to come.
	busy map[net.Conn]bool
}

func (m *moods) set(room int, stall bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room = room
	switch {
	case stall:
		m.healed = make(chan struct{})
	case m.healed != nil:
		close(m.healed)
		m.healed = nil
	}
}

func (m *moods) behave(t *testing.T, w http.ResponseWriter, r Request) bool {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.target.Names(t, r)
	status, keep := http.StatusOK, false
	switch {
	case slices.Contains(names, "appetizer"):
	case slices.Contains(names, "poison"):
		status = http.StatusBadRequest
	case m.room >= 0 && m.room < len(names):
		m.room, status = 0, http.StatusServiceUnavailable
	default:
		keep = true
		if m.room > 0 {
			m.room -= len(names)
		}
	}
	m.target.Answer(w, r, status)
	return keep
}

// wrap lets nothing through to next while stalled.
func (m *moods) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		healed := m.healed
		m.mu.Unlock()
		if healed != nil {
			select {
			case <-healed:
			case <-r.Context().Done():
			}
			// Too late in any case: what it did to the connection is not known.
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

func (m *moods) note(conn net.Conn, state http.ConnState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if state == http.StateNew || state == http.StateActive {
		m.busy[conn] = state == http.StateActive
	} else {
		delete(m.busy, conn)
	}
}

// settled is a sink whose endpoint is done with a request that was given up before
// the next one is sent. HTTP knows no order between them, and a busy machine can keep
// the first one waiting.
type settled struct {
	sink.Sink
	moods *moods
}

// Write waits after the end of ctx until no request is left, but not for long for a connection that stays unused, or an
// endpoint that is stalled.
func (s settled) Write(ctx context.Context, batch []event.Event) (int, error) {
	n, err := s.Sink.Write(ctx, batch)
	if ctx.Err() == nil {
		return n, err
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); time.Since(began) < s.moods.patience(); {
		<-poll.C
	}
	return n, err
}

// patience is how long what is on connections now may take until the endpoint is done with it.
func (m *moods) patience() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(m.busy) == 0:
		return 0
	case m.healed == nil && slices.Contains(slices.Collect(maps.Values(m.busy)), true):
		return 5 * time.Second
	}
	return 100 * time.Millisecond
}
