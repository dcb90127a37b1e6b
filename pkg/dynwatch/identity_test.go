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

// identify has the fake say which cluster it is of.
func (f *fakeAPI) identify(uid string) {
	f.do(func() {
		f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != namespacesPath+"/kube-system" {
				return false
			}
			fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q,"resourceVersion":"3"}}`, uid)
			return true
		}
	})
}

// leadingTo is an address that leads to the fake that at holds.
func leadingTo(t *testing.T, at *atomic.Pointer[fakeAPI]) *fakeAPI {
	front := newFakeAPI(t)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(at.Load().server.URL)
		r.SetURL(to)
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	front.do(func() {
		front.refuse = func(w http.ResponseWriter, r *http.Request) bool { proxy.ServeHTTP(w, r); return true }
	})
	return front
}

// The other cluster has no such namespace, and nothing in it is allowed there.
func TestAnotherClusterWithoutTheNamespace(t *testing.T) {
	own, other := newFakeAPI(t), newFakeAPI(t)
	own.identify("uid-of-the-right-one")
	other.identify("uid-of-another")
	other.do(func() {
		other.rev = 50_000
		other.denied = map[string]bool{"list a": true, "watch a": true}
	})
	own.define()
	own.put("", "a", "")
	own.put("a", "x", "")
	var at atomic.Pointer[fakeAPI]
	at.Store(own)
	wanted := inNamespaces("a")
	r := start(t, leadingTo(t, &at), wanted)
	r.api = own
	r.caughtUp()
	n := len(r.log.all())

	at.Store(other)
	own.cut()
	r.eventually("attempts", func() bool { return r.manager.Targets()[0].Failures > 10 })
	r.wantEvents(n)
	if s := r.state(dynwatch.Degraded); !strings.Contains(s.Reason, "another cluster") || s.Objects != 1 {
		t.Errorf("status %+v", s)
	}
}

// TestAnotherClusterThatForbids: the other cluster takes the credentials and does not allow
// to read its identity. What it shows is not used.
func TestAnotherClusterThatForbids(t *testing.T) {
	own, other := fourObjects(t), newFakeAPI(t)
	own.identify("uid-of-the-right-one")
	other.do(func() {
		other.rev, other.uids = 50_000, 100
		other.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != namespacesPath+"/kube-system" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"namespaces \"kube-system\" is forbidden"}`)
			return true
		}
	})
	other.put("a", "elsewhere", "")
	other.forget()
	var at atomic.Pointer[fakeAPI]
	at.Store(own)
	r := start(t, leadingTo(t, &at), things())
	r.api = own
	r.caughtUp()
	n := len(r.log.all())

	at.Store(other)
	own.cut()
	r.eventually("attempts that say why", func() bool {
		s := r.manager.Targets()[0]
		return s.Failures > 10 && strings.Contains(s.Reason, "kube-system")
	})
	r.wantEvents(n)
	at.Store(own)
	other.cut()
	own.put("a", "meanwhile", "")
	r.caughtUp()
	r.consistent()
	checkStream(t, r.log.all(), own)
}

// The address of the API server leads to another cluster for a while: one with other
// objects, and one that is behind, so that it looks like a restore from a backup.
func TestAnotherClusterBehindTheAddress(t *testing.T) {
	for name, fill := range map[string]func(other *fakeAPI){
		"ahead": func(other *fakeAPI) {
			other.do(func() { other.rev = 50_000; other.uids = 100 })
			for _, name := range []string{"changed", "elsewhere"} {
				other.put("a", name, "")
			}
			other.forget()
		},
		"with the history of the position": func(other *fakeAPI) {
			other.do(func() { other.rev = 101; other.uids = 100 })
			for _, name := range []string{"b", "changed", "deleted", "elsewhere"} {
				other.put("a", name, "")
			}
		},
		"behind":   func(other *fakeAPI) { other.do(func() { other.rev = 7 }); other.put("a", "elsewhere", "") },
		"resource": func(other *fakeAPI) { other.do(func() { other.served = false }) },
	} {
		t.Run(name, func(t *testing.T) {
			own, other := fourObjects(t), newFakeAPI(t)
			own.identify("uid-of-the-right-one")
			other.identify("uid-of-another")
			fill(other)
			var at atomic.Pointer[fakeAPI]
			at.Store(own)
			front := leadingTo(t, &at)
			r := start(t, front, things())
			r.api = own
			r.caughtUp()
			n := len(r.log.all())

			at.Store(other)
			own.cut()
			s := r.state(dynwatch.Degraded)
			if !strings.Contains(s.Reason, "another cluster") || s.Looked {
				t.Errorf("status %+v", s)
			}
			own.put("a", "meanwhile", "")
			failures := s.Failures
			r.eventually("more attempts", func() bool { return r.manager.Targets()[0].Failures > failures+10 })
			r.wantEvents(n)

			at.Store(own)
			other.cut()
			r.caughtUp()
			r.consistent()
			if s := r.manager.Targets()[0]; s.Epoch != 0 || !s.Looked {
				t.Errorf("status %+v", s)
			}
			checkStream(t, r.log.all(), own)
		})
	}
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

// TestNewConnectionReachesAnotherCluster: the address leads to another cluster while older
// connections stay with the right one. The watch of a target is made over a new one.
func TestNewConnectionReachesAnotherCluster(t *testing.T) {
	own, other := fourObjects(t), newFakeAPI(t)
	own.identify("uid-of-the-right-one")
	other.identify("uid-of-another")
	other.do(func() { other.rev, other.uids = 101, 100 })
	for _, name := range []string{"b", "changed", "deleted", "elsewhere"} {
		other.put("a", name, "")
	}
	var at atomic.Pointer[fakeAPI]
	at.Store(own)
	w := newWire(t, &at)
	front := newFakeAPI(t)
	front.server.URL = "http://" + w.Addr().String()
	r := start(t, front, things())
	r.api = own
	r.caughtUp()
	n := len(r.log.all())

	at.Store(other)
	w.breakWatches()
	other.put("a", "later", "")
	s := r.state(dynwatch.Degraded)
	if !strings.Contains(s.Reason, "another cluster") {
		t.Errorf("status %+v", s)
	}
	failures := s.Failures
	own.put("a", "meanwhile", "")
	r.eventually("more attempts", func() bool { return r.manager.Targets()[0].Failures > failures+5 })
	r.wantEvents(n)

	at.Store(own)
	r.caughtUp()
	r.consistent()
	r.wantEpoch(0)
	checkStream(t, r.log.all(), own)
}
