package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/chaos/gateway"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon   = time.Minute
	silent = 150 * time.Millisecond // long enough to see that nothing comes
)

// api is an API server that sends what the test gives it.
type api struct {
	server *httptest.Server
	send   chan string // pieces of the body of /watch
}

func newAPI(t *testing.T, name string) *api {
	t.Helper()
	a := &api{send: make(chan string)}
	mux := http.NewServeMux()
	mux.HandleFunc("/watch", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case piece, more := <-a.send:
				if !more {
					return
				}
				_, _ = io.WriteString(w, piece)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, name+" "+r.Proto+" "+r.Method+" "+r.URL.RequestURI()+" "+string(body))
	})
	a.server = httptest.NewUnstartedServer(mux)
	a.server.EnableHTTP2 = true
	a.server.StartTLS()
	t.Cleanup(a.server.Close)
	return a
}

func (a *api) host(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(a.server.URL)
	must(t, err)
	return u.Host
}

// rig is a gateway before API servers, and a client of it.
type rig struct {
	*gateway.Gateway
	client *http.Client
}

func newRig(t *testing.T, apis ...*api) *rig {
	t.Helper()
	var hosts []string
	for _, a := range apis {
		hosts = append(hosts, a.host(t))
	}
	certificate := apis[0].server.TLS.Certificates[0]
	g, err := gateway.New(gateway.Options{
		Client: &rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, Hosts: hosts, Certificate: certificate, Seed: 1,
	})
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(apis[0].server.Certificate())
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{Gateway: g, client: &http.Client{Transport: transport}}
}

// answer is a whole response.
type answer struct {
	status     int
	kind, body string
}

// get asks the gateway; the error is that of the request or of its body.
func (r *rig) get(ctx context.Context, path string) (answer, error) {
	response, err := r.open(ctx, path)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header.Get("Content-Type"), string(body)}, err
}

func (a answer) isPage() bool {
	return strings.HasPrefix(a.body, "<html>") && strings.HasPrefix(a.kind, "text/html")
}

func (r *rig) open(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Address()+path, nil)
	if err != nil {
		return nil, err
	}
	return r.client.Do(request)
}

// watch is an open response and the lines that come.
type watch struct {
	response *http.Response
	lines    chan string // closed at the end
	err      error       // after the end
}

// watch opens /watch. Its headers come at once.
func (r *rig) watch(t *testing.T) *watch {
	t.Helper()
	return r.watchAt(t, "/watch")
}

func (r *rig) watchAt(t *testing.T, path string) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	response, err := r.open(ctx, path) //nolint:bodyclose // the cleanup closes it
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	w := &watch{response: response, lines: make(chan string, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.lines)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			w.lines <- lines.Text()
		}
		w.err = lines.Err()
	}()
	t.Cleanup(func() { cancel(); _ = response.Body.Close(); <-ended })
	return w
}

func (w *watch) line(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-w.lines:
		if got != want {
			t.Fatalf("got %q (%v), want %q", got, w.err, want)
		}
	case <-time.After(soon):
		t.Fatalf("%q did not arrive", want)
	}
}

func (w *watch) nothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-w.lines:
		t.Fatalf("%q arrived (%v), want silence", got, w.err)
	case <-time.After(silent):
	}
}

// ends waits for the end of the response, which is an error or not.
func (w *watch) ends(t *testing.T, failed bool) {
	t.Helper()
	select {
	case got, more := <-w.lines:
		if more || (w.err != nil) != failed {
			t.Errorf("%q, %v: want the end of the response, an error: %t", got, w.err, failed)
		}
	case <-time.After(soon):
		t.Error("the response does not end")
	}
}

func TestPassesOnAtOnce(t *testing.T) {
	a := newAPI(t, "a")
	r := newRig(t, a)
	w := r.watch(t)
	if w.response.Proto != "HTTP/2.0" {
		t.Errorf("the gateway speaks %s", w.response.Proto)
	}
	for _, text := range []string{"one", "two"} {
		a.send <- text + "\n"
		w.line(t, text)
	}
	got, err := r.get(t.Context(), "/api/v1/pods?limit=1&continue=%2F")
	if want := (answer{http.StatusOK, "application/json", "a HTTP/2.0 GET /api/v1/pods?limit=1&continue=%2F "}); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+r.Address()+"/x", strings.NewReader("sent"))
	must(t, err)
	posted, err := r.client.Do(request)
	must(t, err)
	defer posted.Body.Close()
	if body, err := io.ReadAll(posted.Body); string(body) != "a HTTP/2.0 POST /x sent" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	close(a.send)
	w.ends(t, false)
}

func TestAnswersHTML(t *testing.T) {
	all := map[string]bool{"/api/v1/pods": true, "/api": true, "/apis": true, "/apis/apps/v1/deployments": true, "/apis/apps.example/v1/x": true, "/version": true}
	tests := map[string]struct {
		behavior gateway.Behavior
		passes   []string
	}{
		"404 for everything": {gateway.Behavior{Status: 404}, nil},
		"503 for a group":    {gateway.Behavior{Status: 503, Group: "apps"}, []string{"/api/v1/pods", "/api", "/apis", "/apis/apps.example/v1/x", "/version"}},
		"502 for core":       {gateway.Behavior{Status: 502, Group: "core"}, []string{"/apis", "/apis/apps/v1/deployments", "/apis/apps.example/v1/x", "/version"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newAPI(t, "a"))
			r.Behave(test.behavior)
			passes := make(map[string]bool)
			for _, path := range test.passes {
				passes[path] = true
			}
			for path := range all {
				got, err := r.get(t.Context(), path)
				must(t, err)
				if want := !passes[path]; got.isPage() != want || want && got.status != test.behavior.Status {
					t.Errorf("%s: %v", path, got)
				}
			}
			if got := r.Answered(test.behavior.Status); got != len(all)-len(passes) {
				t.Errorf("%d pages are counted, want %d", got, len(all)-len(passes))
			}
			r.Behave(gateway.Behavior{})
			if got, err := r.get(t.Context(), "/apis/apps/v1/deployments"); err != nil || got.status != http.StatusOK {
				t.Errorf("afterwards: %v, %v", got, err)
			}
		})
	}
}

// TestForbidsLists: a page of all objects is refused. A watch, the revision and one object are not.
func TestForbidsLists(t *testing.T) {
	a := newAPI(t, "a")
	r := newRig(t, a)
	r.Behave(gateway.Behavior{Status: 403, Lists: true})
	for query, refused := range map[string]bool{
		"limit=500": true, "limit=500&resourceVersion=7": true, "limit=1": false, "": false,
		"limit=500&fieldSelector=metadata.name%3Dx": false,
	} {
		got, err := r.get(t.Context(), "/api/v1/pods?"+query)
		must(t, err)
		if got.isPage() != refused {
			t.Errorf("%q: %v", query, got)
		}
	}
	w := r.watchAt(t, "/watch?limit=500&watch=true")
	a.send <- "{}\n"
	w.line(t, "{}")
}

// TestStuckWatches: a stuck watch brings bookmarks at the revision at which it got stuck.
func TestStuckWatches(t *testing.T) {
	frame := func(kind string, revision int) string {
		return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","metadata":{"resourceVersion":"%d"}}}`, kind, revision)
	}
	a := newAPI(t, "a")
	r := newRig(t, a)
	w := r.watchAt(t, "/watch?watch=true&resourceVersion=3")
	pass := func(sent, want string) {
		t.Helper()
		a.send <- sent[:len(sent)/2]
		a.send <- sent[len(sent)/2:] + "\n"
		if want == "" {
			w.nothing(t)
		} else {
			w.line(t, want)
		}
	}
	pass(frame("ADDED", 4), frame("ADDED", 4))
	r.Behave(gateway.Behavior{StuckWatches: true, Server: 2})
	pass(frame("ADDED", 5), frame("ADDED", 5))
	pass(`{"type":"ERROR","object":{}}`, `{"type":"ERROR","object":{}}`)
	r.Behave(gateway.Behavior{StuckWatches: true, Server: 1})
	pass(frame("MODIFIED", 6), "")
	pass(frame("BOOKMARK", 7), frame("BOOKMARK", 5))
	r.Behave(gateway.Behavior{})
	a.send <- frame("DELETED", 8) + "\n"
	w.ends(t, true)
}

// TestServers: requests go to the servers that are routed to, and a page for one
// server is a page for its requests only.
func TestServers(t *testing.T) {
	r := newRig(t, newAPI(t, "a"), newAPI(t, "b"))
	ask := func() (servers map[string]int) {
		servers = make(map[string]int)
		for range 60 {
			got, err := r.get(t.Context(), "/x")
			must(t, err)
			name, _, _ := strings.Cut(got.body, " ")
			if got.status != http.StatusOK {
				name = strconv.Itoa(got.status)
			}
			servers[name]++
		}
		return servers
	}
	if got := ask(); got["a"] == 0 || got["b"] == 0 || len(got) != 2 {
		t.Errorf("both are live: %v", got)
	}
	r.Behave(gateway.Behavior{Status: 404, Server: 2})
	if got := ask(); got["a"] == 0 || got["404"] == 0 || len(got) != 2 {
		t.Errorf("the second one is not found: %v", got)
	}
	r.Behave(gateway.Behavior{})
	r.Route(1)
	if got := ask(); got["b"] != 60 {
		t.Errorf("the second one is live: %v", got)
	}
	r.Route()
	if got := ask(); got["502"] != 60 {
		t.Errorf("none is live: %v", got)
	}
}

func TestBuffers(t *testing.T) {
	a := newAPI(t, "a")
	r := newRig(t, a)
	w := r.watch(t)
	r.Behave(gateway.Behavior{Buffer: time.Hour})
	a.send <- "one\n"
	w.nothing(t)
	a.send <- "two\n"
	w.nothing(t)
	r.Behave(gateway.Behavior{})
	w.line(t, "one")
	w.line(t, "two")

	r.Behave(gateway.Behavior{Buffer: 20 * silent})
	a.send <- "late\n"
	w.nothing(t)
	w.line(t, "late")

	r.Behave(gateway.Behavior{Buffer: time.Hour})
	large := strings.Repeat("x", 40<<10)
	a.send <- large + "\n"
	w.nothing(t)
	a.send <- large + "\n"
	if got := <-w.lines; got != large {
		t.Errorf("a full buffer: %d bytes, %v", len(got), w.err)
	}
	close(a.send)
	if got := <-w.lines; got != large {
		t.Errorf("the end of the response: %d bytes, %v", len(got), w.err)
	}
}

func TestDelaysHeaders(t *testing.T) {
	a := newAPI(t, "a")
	r := newRig(t, a)
	r.Behave(gateway.Behavior{HeaderDelay: silent})
	began := time.Now()
	if _, err := r.get(t.Context(), "/x"); err != nil || time.Since(began) < silent {
		t.Errorf("the headers came after %s, %v", time.Since(began), err)
	}
	r.Behave(gateway.Behavior{HeadersWithBody: true})
	opened := make(chan error, 1)
	go func() {
		response, err := r.open(t.Context(), "/watch")
		if err == nil {
			err = response.Body.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("the headers came without a body (%v)", err)
	case <-time.After(silent):
	}
	a.send <- "one\n"
	select {
	case err := <-opened:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("the headers do not come with the body")
	}
}

func TestSpeaksHTTP1Only(t *testing.T) {
	a := newAPI(t, "a")
	r := newRig(t, a)
	r.Behave(gateway.Behavior{HTTP1: true})
	w := r.watch(t)
	if w.response.Proto != "HTTP/1.1" {
		t.Errorf("the gateway speaks %s", w.response.Proto)
	}
	a.send <- "one\n"
	w.line(t, "one")
}

func TestClosesIdleResponses(t *testing.T) {
	a := newAPI(t, "a")
	r := newRig(t, a)
	w := r.watch(t)
	r.Behave(gateway.Behavior{Idle: 20 * silent})
	for range 3 { // not idle
		a.send <- "one\n"
		w.line(t, "one")
		w.nothing(t)
	}
	w.ends(t, true)
}

func TestClosesIdleConnections(t *testing.T) {
	r := newRig(t, newAPI(t, "a"))
	var dialer net.Dialer
	old, err := dialer.DialContext(t.Context(), "tcp", r.Address())
	must(t, err)
	defer func() { _ = old.Close() }()
	if _, err := r.get(t.Context(), "/x"); err != nil { // the gateway has accepted the one before
		t.Fatal(err)
	}
	r.Behave(gateway.Behavior{Idle: silent})
	later, err := dialer.DialContext(t.Context(), "tcp", r.Address())
	must(t, err)
	defer func() { _ = later.Close() }()
	for _, conn := range []net.Conn{old, later} {
		must(t, conn.SetReadDeadline(time.Now().Add(soon)))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Errorf("%d bytes, %v: want the end of the connection", n, err)
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestStallsAndFreezes(t *testing.T) {
	tests := map[string]struct{ stop, heal func(*rig) }{
		"stall":  {func(r *rig) { r.Behave(gateway.Behavior{Stall: true}) }, func(r *rig) { r.Behave(gateway.Behavior{}) }},
		"freeze": {func(r *rig) { r.Freeze() }, func(r *rig) { r.Thaw() }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, "a")
			r := newRig(t, a)
			w := r.watch(t)
			a.send <- "one\n"
			w.line(t, "one")
			test.stop(r)
			a.send <- "two\n"
			w.nothing(t)
			ctx, cancel := context.WithTimeout(t.Context(), silent)
			defer cancel()
			if got, err := r.get(ctx, "/x"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a new request is answered: %v, %v", got, err)
			}
			test.heal(r)
			w.line(t, "two")
			if _, err := r.get(t.Context(), "/x"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestServerDown(t *testing.T) {
	a := newAPI(t, "a")
	r := newRig(t, a)
	w := r.watch(t)
	a.server.CloseClientConnections()
	a.server.Close()
	w.ends(t, true)
	if got, err := r.get(t.Context(), "/x"); err != nil || got.status != http.StatusBadGateway || !got.isPage() {
		t.Errorf("%v, %v", got, err)
	}
}
