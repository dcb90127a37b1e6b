package listwatch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// watchServer is an API server whose watches bring nothing and do not end by themselves.
type watchServer struct {
	*httptest.Server

	open [3]atomic.Int64 // the watches now, by the major version of HTTP
}

// newWatchServer starts one, which with refuse has no handshake without HTTP/2.
func newWatchServer(t *testing.T, refuse bool) *watchServer {
	t.Helper()
	s := &watchServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.open[r.ProtoMajor].Add(1)
		defer s.open[r.ProtoMajor].Add(-1)
		w.Header().Set("Content-Type", "application/json;stream=watch")
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	s.EnableHTTP2 = true
	if refuse {
		s.TLS = onlyHTTP2()
	}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// onlyHTTP2 has no handshake without HTTP/2.
func onlyHTTP2() *tls.Config {
	return &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if !slices.Contains(hello.SupportedProtos, "h2") {
			return nil, errors.New("HTTP/2 alone")
		}
		return nil, nil //nolint:nilnil // the server's own
	}}
}

// watching opens watches that a test ends.
type watching struct {
	t       *testing.T
	clients *kube.Clients
}

func (s *watchServer) watching(t *testing.T) *watching {
	t.Helper()
	c, err := kube.NewClients(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, slog.New(slog.DiscardHandler))
	must(t, err)
	t.Cleanup(c.Close)
	return &watching{t, c}
}

// open opens a watch and returns what ends it.
func (w *watching) open(metadataOnly bool) (end func()) {
	w.t.Helper()
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	s, err := New(Resource{GVR: gvr, Kind: "Pod", MetadataOnly: metadataOnly}, Options{Clients: w.clients})
	must(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	one, err := s.Watch(ctx, 1, false)
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	end = func() { one.Stop(); cancel(); drain(one) }
	w.t.Cleanup(end)
	return end
}

// drain returns when the watch has ended.
func drain(w watch.Interface) {
	for range w.ResultChan() {
	}
}

func (s *watchServer) expect(t *testing.T, apart, shared int64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for s.open[1].Load() != apart || s.open[2].Load() != shared {
		if time.Now().After(deadline) {
			t.Fatalf("%d watches with HTTP/1.1 and %d with HTTP/2, want %d and %d", s.open[1].Load(), s.open[2].Load(), apart, shared)
		}
		<-time.After(time.Millisecond)
	}
}

// TestWatchesApart: the first watches of whole objects have a connection each, and one
// that ends leaves its place to another.
func TestWatchesApart(t *testing.T) {
	s := newWatchServer(t, false)
	w := s.watching(t)
	w.open(true)
	s.expect(t, 0, 1)
	ends := make([]func(), 0, kube.ApartWatches)
	for range kube.ApartWatches {
		ends = append(ends, w.open(false))
	}
	w.open(false)
	s.expect(t, kube.ApartWatches, 2)
	ends[3]()
	s.expect(t, kube.ApartWatches-1, 2)
	for deadline := time.Now().Add(time.Minute); len(w.clients.Slots) == kube.ApartWatches; { // it is given back a little later
		if time.Now().After(deadline) {
			t.Fatal("a watch that has ended keeps its place")
		}
		<-time.After(time.Millisecond)
	}
	w.open(false)
	s.expect(t, kube.ApartWatches, 2)
}

// TestWatchesShareWhereTheyMust: where nothing but HTTP/2 goes through, watches do.
func TestWatchesShareWhereTheyMust(t *testing.T) {
	s := newWatchServer(t, true)
	w := s.watching(t)
	for range 3 {
		w.open(false)
	}
	s.expect(t, 0, 3)
	if len(w.clients.Slots) > 1 {
		t.Errorf("%d watches have tried a connection of their own, want one", len(w.clients.Slots))
	}
	// A server that is away is no such place.
	other := newWatchServer(t, false)
	gone := other.watching(t)
	other.Close()
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	src, err := New(Resource{GVR: gvr, Kind: "Pod"}, Options{Clients: gone.clients})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := src.Watch(ctx, 1, false); err == nil || gone.clients.ShareUntil.Load() != 0 {
		t.Errorf("a watch of a server that is away: %v, and watches share until %d", err, gone.clients.ShareUntil.Load())
	}
}

// listServer is an API server with one list; with cut, an answer with HTTP/1.1 breaks off. With denies, it refuses
// the first request.
type listServer struct {
	*httptest.Server

	lists [3]atomic.Int64 // the requests, by the major version of HTTP
}

func newListServer(t *testing.T, cut, refuse, denies bool) *listServer {
	t.Helper()
	s := &listServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.lists[r.ProtoMajor].Add(1) == 1 && denies {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, err := io.WriteString(w, `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}`)
		if cut && r.ProtoMajor == 1 {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		}
		if _, end := io.WriteString(w, `]}`); errors.Join(err, end) != nil {
			t.Error(err, end)
		}
	}))
	s.EnableHTTP2 = true
	if refuse {
		s.TLS = onlyHTTP2()
	}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestListsApart: lists of whole objects have connections of their own as long as that
// works.
func TestListsApart(t *testing.T) {
	for name, test := range map[string]struct {
		metadataOnly bool
		cut, refuse  bool
		denies       bool
		taken        int // places that other lists have
		fails        int // lists that fail before one does not
		want         [3]int64
	}{
		"Apart":         {want: [3]int64{1: 2}},
		"Metadata":      {metadataOnly: true, want: [3]int64{2: 2}},
		"Full":          {taken: kube.ApartLists, want: [3]int64{2: 2}},
		"OnlyHTTP2":     {refuse: true, fails: 1, want: [3]int64{2: 2}},
		"Denied":        {denies: true, fails: 1, want: [3]int64{1: 3}},
		"BreaksOffThen": {cut: true, fails: 1, want: [3]int64{1: 1, 2: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newListServer(t, test.cut, test.refuse, test.denies)
			c, err := kube.NewClients(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, slog.New(slog.DiscardHandler))
			must(t, err)
			t.Cleanup(c.Close)
			gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
			s, err := New(Resource{GVR: gvr, Kind: "Pod", MetadataOnly: test.metadataOnly}, Options{Clients: c})
			must(t, err)
			for range test.taken {
				c.Lists <- struct{}{}
			}
			for i := range test.fails + 2 {
				seen := 0
				rv, err := s.List(t.Context(), &Listing{}, s.Frames, func(*frame.Object, *frame.Malformed) error { seen++; return nil })
				if failed := err != nil; failed != (i < test.fails) || !failed && (rv != 7 || seen != 1) {
					t.Errorf("list %d: revision %d, %d objects, %v", i, rv, seen, err)
				}
			}
			if got := [3]int64{1: server.lists[1].Load(), 2: server.lists[2].Load()}; got != test.want {
				t.Errorf("lists by version of HTTP: %v, want %v", got, test.want)
			}
			if len(c.Lists) != test.taken {
				t.Errorf("%d places are taken, want %d", len(c.Lists), test.taken)
			}
		})
	}
}
