package dynwatch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/podserver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// forgetful is a log that keeps nothing.
type forgetful struct{ journal.Stateless }

// newOnPipes is a Manager of an API server that is on the other ends of pipes.
func newOnPipes(t *testing.T, api http.Handler, log journal.Log) *Manager {
	t.Helper()
	m, err := New(Options{
		Cluster: "test", Kubernetes: podserver.OnPipes(t, api), Log: log,
		Reject: func(context.Context, Rejected) error { return nil }, RedactionKey: make([]byte, minKey), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func (forgetful) Append(context.Context, []event.Event) error { return nil }

// quietServer is an API server with Pods that never change. It counts the requests for them.
type quietServer struct {
	pods int
	// bookmark is the time between bookmarks, 0 for none.
	bookmark time.Duration

	mu    sync.Mutex
	count map[string]int
}

func (s *quietServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	kind := "page of a list"
	switch {
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch","get"]}]}`)
		return
	case r.URL.Path != "/api/v1/pods":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`)
		return
	case q.Has("watch"):
		kind = "watch"
	case strings.Contains(q.Get("fieldSelector"), "informd-no-object"):
		kind = "revision"
	}
	s.mu.Lock()
	s.count[kind]++
	s.mu.Unlock()
	switch kind {
	case "revision":
		podserver.WritePage(w, r, 0)
	case "page of a list":
		podserver.WritePage(w, r, s.pods)
	default:
		s.watch(w, r)
	}
}

func (s *quietServer) watch(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	end := time.After(7 * time.Minute)
	for {
		var next <-chan time.Time
		if s.bookmark != 0 {
			next = time.After(s.bookmark)
		}
		select {
		case <-next:
			fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}}`+"\n", podserver.Revision)
			_ = rc.Flush()
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// TestQuietTargetsAskLittle: what a target of which nothing is heard asks for in an hour.
func TestQuietTargetsAskLittle(t *testing.T) {
	for name, test := range map[string]struct {
		pods     int
		bookmark time.Duration
		most     map[string]int
	}{
		"with bookmarks": {5_000, time.Minute, map[string]int{"watch": 9, "revision": 45, "page of a list": 11 * 2}},
		// One revision for each watch, and one for each audit whose look-up this server refuses.
		"without bookmarks, 100 objects":    {100, 0, map[string]int{"watch": 18, "revision": 22, "page of a list": 19}},
		"without bookmarks, 5,000 objects":  {5_000, 0, map[string]int{"watch": 18, "revision": 22, "page of a list": 10 * 8}},
		"without bookmarks, 20,000 objects": {20_000, 0, map[string]int{"watch": 18, "revision": 22, "page of a list": 40 * 4}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &quietServer{pods: test.pods, bookmark: test.bookmark, count: make(map[string]int)}
				m := newOnPipes(t, api, forgetful{})
				if err := m.Apply([]Resource{{Resource: "pods"}}); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Hour) // in which it begins
				api.mu.Lock()
				clear(api.count)
				api.mu.Unlock()
				<-time.After(time.Hour)
				api.mu.Lock()
				defer api.mu.Unlock()
				if s := m.Targets()[0]; s.State != Live && s.State != Stale || s.Objects != test.pods {
					t.Fatalf("target: %+v", s)
				}
				t.Logf("requests in an hour: %v", api.count)
				for kind, n := range api.count {
					if n > test.most[kind] {
						t.Errorf("%s: %d requests in an hour, want at most %d", kind, n, test.most[kind])
					}
				}
			})
		})
	}
}
