package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// proxy stands between informd and the API server and does to the traffic what
// networks do.
type proxy struct {
	server     *httptest.Server
	kubeconfig string

	mu sync.Mutex
	// refuseWatches answers every attempt to watch with 503.
	refuseWatches bool
	// cutting ends every open watch in the middle of its next frame.
	cutting int
	// closing ends every open watch at once when it is closed.
	closing chan struct{}
	// mangle changes each line of a response.
	mangle func([]byte) []byte
	// missing says for which requests the proxy answers 404 as HTML, as one without a
	// route does; server is the API server that the connection leads to.
	missing func(r *http.Request, server int) bool
	// ending is the resource whose watches the proxy answers with 200 and an empty body that
	// ends at once.
	ending string
	// What happened: watches refused; by resource, watches begun, frames cut and
	// history denied (410); and lists.
	refused, missed        int
	watches, cuts, expired map[string]int
	lists                  []listRequest

	count *watchCount
}

// listRequest is one GET that is not a watch, be it a page of a list; those that
// ask for no more than one object are not noted.
type listRequest struct {
	resource string
	// metadata: no bodies are asked for.
	metadata bool
	// byName: of one object, by a field selector.
	byName bool
}

func startProxy(t *testing.T, api *rest.Config) *proxy {
	t.Helper()
	return startBalancer(t, api)
}

// serverKey is where a connection's context has the number of its API server.
type serverKey struct{}

func serverOf(r *http.Request) int {
	server, _ := r.Context().Value(serverKey{}).(int)
	return server
}

// transports are the ways to API servers, by connection.
type transports []http.RoundTripper

func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	return t[serverOf(r)].RoundTrip(r)
}

// startBalancer is a proxy before several API servers: each connection leads to the next
// of them.
func startBalancer(t *testing.T, apis ...*rest.Config) *proxy {
	t.Helper()
	api := apis[0]
	targets, ways := make([]*url.URL, len(apis)), make(transports, len(apis))
	for i, one := range apis {
		var err error
		if targets[i], err = url.Parse(one.Host); err != nil {
			t.Fatal(err)
		}
		if ways[i], err = rest.TransportFor(rest.CopyConfig(one)); err != nil {
			t.Fatal(err)
		}
	}
	p := &proxy{closing: make(chan struct{}), watches: make(map[string]int), cuts: make(map[string]int), expired: make(map[string]int), count: newWatchCount()}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(targets[serverOf(r.In)]) },
		Transport:      ways,
		FlushInterval:  -1,
		ModifyResponse: p.modify,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	connections := 0
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.note(r)
		if p.misses(r) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<html><body><h1>404 Not Found</h1>default backend</body></html>")
			return
		}
		if p.refuses(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"proxy refuses"}`)
			return
		}
		if p.ends(r) {
			w.Header().Set("Content-Type", "application/json")
			return
		}
		if isWatch(r) {
			defer p.count.begin(r)()
		}
		forward.ServeHTTP(w, r)
	}))
	p.server.Config.ErrorLog = nil
	p.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		p.mu.Lock()
		defer p.mu.Unlock()
		connections++
		return context.WithValue(ctx, serverKey{}, connections%len(apis))
	}
	p.server.Start()
	t.Cleanup(func() {
		p.cutNow()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":%q}}]}`,
		p.server.URL, api.BearerToken)
	if err := os.WriteFile(p.kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// resourceOf is the last element of a collection's path.
func resourceOf(r *http.Request) string { return path.Base(r.URL.Path) }

func (p *proxy) note(r *http.Request) {
	q := r.URL.Query()
	if r.Method != http.MethodGet || isWatch(r) || q.Get("limit") == "1" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists = append(p.lists, listRequest{
		resource: resourceOf(r),
		metadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList"),
		byName:   strings.Contains(q.Get("fieldSelector"), "metadata.name="),
	})
}

func (p *proxy) refuses(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuseWatches && isWatch(r) {
		p.refused++
		return true
	}
	return false
}

func (p *proxy) misses(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	missing := p.missing != nil && p.missing(r, serverOf(r))
	if missing {
		p.missed++
	}
	return missing
}

func (p *proxy) ends(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return isWatch(r) && resourceOf(r) == p.ending
}

func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// cutNow ends every open watch at once.
func (p *proxy) cutNow() {
	p.set(func() {
		close(p.closing)
		p.closing = make(chan struct{})
	})
}

func (p *proxy) modify(r *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	body := &proxiedBody{
		proxy: p, body: r.Body, lines: bufio.NewReader(r.Body), resource: resourceOf(r.Request),
		watch: isWatch(r.Request), cutAt: p.cutting + 1,
	}
	if body.watch {
		p.watches[body.resource]++
		if r.StatusCode == http.StatusGone {
			p.expired[body.resource]++
		}
		closing := p.closing
		ended := r.Request.Context().Done()
		go func() {
			select {
			case <-closing:
				_ = r.Body.Close() // ends the read in progress
			case <-ended:
			}
		}()
	}
	r.Body = body
	r.ContentLength = -1
	r.Header.Del("Content-Length")
	return nil
}

// proxiedBody passes a response on line by line: in a watch, frame by frame.
type proxiedBody struct {
	proxy    *proxy
	body     io.ReadCloser
	lines    *bufio.Reader
	resource string
	watch    bool
	cutAt    int
	pending  []byte
	err      error
}

var errCut = errors.New("cut")

func (b *proxiedBody) Read(p []byte) (int, error) {
	if len(b.pending) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.next()
	}
	n := copy(p, b.pending)
	b.pending = b.pending[n:]
	if len(b.pending) > 0 || n > 0 {
		return n, nil
	}
	return n, b.err
}

// next reads the next line and does to it what was asked for.
func (b *proxiedBody) next() {
	b.pending, b.err = b.lines.ReadBytes('\n')
	b.proxy.mu.Lock()
	defer b.proxy.mu.Unlock()
	if b.watch && isExpiry(b.pending) {
		b.proxy.expired[b.resource]++
	}
	if b.proxy.mangle != nil {
		b.pending = b.proxy.mangle(bytes.Clone(b.pending))
	}
	if b.watch && len(b.pending) > 1 && b.proxy.cutting >= b.cutAt {
		b.pending, b.err = b.pending[:len(b.pending)/2], errCut
		b.proxy.cuts[b.resource]++
	}
}

// isExpiry reports whether a watch's frame is the error that its revision is gone.
func isExpiry(line []byte) bool {
	var frame struct {
		Type   string
		Object struct{ Code int }
	}
	return json.Unmarshal(line, &frame) == nil && frame.Type == "ERROR" && frame.Object.Code == http.StatusGone
}

func (b *proxiedBody) Close() error { return b.body.Close() }
