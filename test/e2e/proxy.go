package e2e

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

// Proxy stands between informd and the API server and does to the traffic what
// networks do.
type Proxy struct {
	server     *httptest.Server
	Kubeconfig string

	mu sync.Mutex
	// RefuseWatches answers every attempt to watch with 503.
	RefuseWatches bool
	// Cutting ends every open watch in the middle of its next frame.
	Cutting int
	// closing ends every open watch at once when it is closed.
	closing chan struct{}
	// Mangle changes each line of a response.
	Mangle func([]byte) []byte
	// Missing says for which requests the proxy answers 404 as HTML, as one without a
	// route does; server is the API server that the connection leads to.
	Missing func(r *http.Request, server int) bool
	// Ending is the resource whose watches the proxy answers with 200 and an empty body that
	// ends at once.
	Ending string
	// What happened: requests, of them watches refused and those of Missing; by resource, watches begun,
	// frames cut and history denied (410); and lists.
	Requests, Refused, Missed int
	Watches, Cuts, Expired    map[string]int
	Lists                     []ListRequest

	Count *WatchCount
}

// ListRequest is one GET that is not a watch, be it a page of a list; those that
// ask for no more than one object are not noted.
type ListRequest struct {
	Resource string
	// Metadata: no bodies are asked for.
	Metadata bool
	// ByName: of one object, by a field selector.
	ByName bool
}

// StartProxy starts one before an API server, until the end of the test.
func StartProxy(t *testing.T, api *rest.Config) *Proxy {
	t.Helper()
	return StartBalancer(t, api)
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

// StartBalancer is a proxy before several API servers: each connection leads to the next
// of them.
func StartBalancer(t *testing.T, apis ...*rest.Config) *Proxy {
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
	p := &Proxy{closing: make(chan struct{}), Watches: make(map[string]int), Cuts: make(map[string]int), Expired: make(map[string]int), Count: newWatchCount()}
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
		if IsWatch(r) {
			defer p.Count.begin(r)()
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
		p.CutNow()
		p.server.CloseClientConnections()
		p.server.Close()
	})
	p.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":%q}}]}`,
		p.server.URL, api.BearerToken)
	Must(t, os.WriteFile(p.Kubeconfig, []byte(config), 0o600))
	return p
}

// IsWatch reports whether a request begins a watch.
func IsWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// resourceOf is the last element of a collection's path.
func resourceOf(r *http.Request) string { return path.Base(r.URL.Path) }

func (p *Proxy) note(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Requests++
	q := r.URL.Query()
	if r.Method != http.MethodGet || IsWatch(r) || q.Get("limit") == "1" {
		return
	}
	p.Lists = append(p.Lists, ListRequest{
		Resource: resourceOf(r),
		Metadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList"),
		ByName:   strings.Contains(q.Get("fieldSelector"), "metadata.name="),
	})
}

func (p *Proxy) refuses(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.RefuseWatches && IsWatch(r) {
		p.Refused++
		return true
	}
	return false
}

func (p *Proxy) misses(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	missing := p.Missing != nil && p.Missing(r, serverOf(r))
	if missing {
		p.Missed++
	}
	return missing
}

func (p *Proxy) ends(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return IsWatch(r) && resourceOf(r) == p.Ending
}

// Set changes what the proxy does, while no request looks.
func (p *Proxy) Set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// CutNow ends every open watch at once.
func (p *Proxy) CutNow() {
	p.Set(func() {
		close(p.closing)
		p.closing = make(chan struct{})
	})
}

func (p *Proxy) modify(r *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	body := &proxiedBody{
		proxy: p, body: r.Body, lines: bufio.NewReader(r.Body), resource: resourceOf(r.Request),
		watch: IsWatch(r.Request), cutAt: p.Cutting + 1,
	}
	if body.watch {
		p.Watches[body.resource]++
		if r.StatusCode == http.StatusGone {
			p.Expired[body.resource]++
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
	proxy    *Proxy
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
		b.proxy.Expired[b.resource]++
	}
	if b.proxy.Mangle != nil {
		b.pending = b.proxy.Mangle(bytes.Clone(b.pending))
	}
	if b.watch && len(b.pending) > 1 && b.proxy.Cutting >= b.cutAt {
		b.pending, b.err = b.pending[:len(b.pending)/2], errCut
		b.proxy.Cuts[b.resource]++
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
