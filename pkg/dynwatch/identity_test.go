package dynwatch_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

func ofIdentity(r *http.Request) bool { return r.URL.Path == namespacesPath+"/kube-system" }

// identify has the fake say which cluster it is of.
func (f *fakeAPI) identify(uid string) {
	f.keepRefusing(ofIdentity, func(w http.ResponseWriter) {
		fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q,"resourceVersion":"3"}}`, uid)
	})
}

func (f *fakeAPI) unserve() { f.do(func() { f.served = false }) }

// leadingTo is an address that leads to the fake that at holds.
func leadingTo(t *testing.T, at *atomic.Pointer[fakeAPI]) *fakeAPI {
	front := newFakeAPI(t)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(at.Load().server.URL)
		r.SetURL(to)
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	front.do(func() {
		front.proxy = func(w http.ResponseWriter, r *http.Request) bool { proxy.ServeHTTP(w, r); return true }
	})
	return front
}

// The address of the API server leads to another cluster for a while, as its reason says. The target uses nothing of
// what that shows: neither other objects, nor fewer, nor an older revision, which looks like a restore from a backup.
func TestAnotherClusterBehindTheAddress(t *testing.T) {
	with := func(rev uint64, names ...string) func(*fakeAPI) {
		return func(other *fakeAPI) {
			other.do(func() { other.rev, other.uids = rev, 100 })
			for _, name := range names {
				other.put("a", name, "")
			}
		}
	}
	const another = anotherCluster
	withHistory := with(101, "b", "changed", "deleted", "elsewhere")
	for name, c := range map[string]elsewhere{
		"ahead": {func(other *fakeAPI) {
			with(50_000, "changed", "elsewhere")(other)
			other.forget()
		}, things(), false, another},
		"with the history of the position": {withHistory, things(), false, another},
		"behind":                           {with(7, "elsewhere"), things(), false, another},
		"without the resource":             {(*fakeAPI).unserve, things(), false, another},
		"without the namespace, in which nothing is allowed": {func(other *fakeAPI) {
			other.do(func() { other.rev, other.denied = 50_000, map[string]bool{"list a": true, "watch a": true} })
		}, inNamespaces("a"), false, another},
		"its identity is forbidden": {func(other *fakeAPI) {
			with(50_000, "elsewhere")(other)
			other.forget()
			other.keepRefusing(ofIdentity, refusal(403, "Forbidden", `namespaces "kube-system" is forbidden`))
		}, things(), false, "kube-system"},
		"over new connections": {withHistory, things(), true, another},
	} {
		t.Run(name, func(t *testing.T) { c.run(t) })
	}
}

// elsewhere is another cluster, that the address of the API server leads to for a while.
type elsewhere struct {
	fill   func(other *fakeAPI)
	wanted dynwatch.Resource
	// overNew: connections that are open stay with the right cluster.
	overNew bool
	reason  string
}

const anotherCluster = "another cluster"

func (c *elsewhere) run(t *testing.T) {
	own, other := fourObjects(t), newFakeAPI(t)
	own.identify("uid-of-the-right-one")
	other.identify("uid-of-another")
	c.fill(other)
	own.define()
	var at atomic.Pointer[fakeAPI]
	at.Store(own)
	front, leave := leadingTo(t, &at), own.cut
	if c.overNew {
		w := newWire(t, &at)
		front.server.URL, leave = "http://"+w.Addr().String(), w.breakWatches
	}
	r := start(t, front, c.wanted)
	r.api = own
	r.caughtUp()
	n := len(r.log.all())

	at.Store(other)
	leave()
	own.put("a", "meanwhile", "")
	r.eventually("attempts that say why", func() bool {
		s := r.manager.Targets()[0]
		return s.Failures > 10 && strings.Contains(s.Reason, c.reason)
	})
	r.wantEvents(n)
	if s := r.manager.Targets()[0]; s.Objects != 4 || c.reason == anotherCluster && (s.State != dynwatch.Degraded || s.Looked) {
		t.Errorf("status %+v", s)
	}

	at.Store(own)
	other.cut()
	r.caughtUp()
	r.consistent()
	if s := r.manager.Targets()[0]; s.Epoch != 0 || !s.Looked {
		t.Errorf("status %+v", s)
	}
	checkStream(t, r.log.all(), own)
}

// wire is an address that leads each new connection to the fake that at holds. Open
// connections stay with the fake that they reached, as behind a load balancer.
type wire struct {
	net.Listener

	at *atomic.Pointer[fakeAPI]

	mu      sync.Mutex
	watches []net.Conn
}

func newWire(t *testing.T, at *atomic.Pointer[fakeAPI]) *wire {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{Listener: l, at: at}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.serve(t.Context(), conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return w
}

// serve passes on what the two ends of a connection send.
func (w *wire) serve(ctx context.Context, conn net.Conn) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", w.at.Load().server.Listener.Addr().String())
	if err != nil {
		_ = conn.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, server)
		_ = conn.Close()
	})
	both.Go(func() {
		_, _ = io.Copy(server, io.TeeReader(conn, writer(func(sent []byte) {
			if bytes.Contains(sent, []byte("watch=true")) {
				w.mu.Lock()
				w.watches = append(w.watches, conn)
				w.mu.Unlock()
			}
		})))
		_ = server.Close()
	})
	both.Wait()
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// breakWatches closes the connections of watches, and no others.
func (w *wire) breakWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.watches {
		_ = conn.Close()
	}
	w.watches = nil
}
