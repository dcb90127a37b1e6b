//go:build long

package dynwatch

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/podserver"
	"github.com/informd/informd/pkg/dynwatch/internal/target"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// counting is a log that counts events.
type counting struct {
	forgetful

	events map[event.Op]int
}

func (c counting) Append(_ context.Context, events []event.Event) error {
	for i := range events {
		c.events[events[i].Op]++
	}
	return nil
}

// failingServer has Pods, and fails every 50th request for a page or for one of them.
type failingServer struct {
	pods           int
	fail           func(w http.ResponseWriter)
	before         func(w http.ResponseWriter, r *http.Request) bool // answers a request, if it returns true
	requests, more int                                               // all, and those beside the failed ones
	first          int                                               // for the first page
}

func (s *failingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if s.before != nil && s.before(w, r) {
		return
	}
	if r.URL.Path != "/api/v1/pods" && !strings.HasSuffix(r.URL.Path, "/pods") {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound"}`)
		return
	}
	q := r.URL.Query()
	name, byName := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name=p")
	if s.requests++; s.requests%50 == 25 {
		s.fail(w)
		return
	}
	s.more++
	if !byName {
		if q.Get("continue") == "" {
			s.first++
		}
		podserver.WritePage(w, r, s.pods)
		return
	}
	i, _ := strconv.Atoi(name)
	fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[{"metadata":{"name":"p%d","namespace":"a","uid":"u%[2]d","resourceVersion":"%d"}}]}`, podserver.Revision, i, i+1)
}

// pods is a target whose index holds so many Pods, of which some are older than those of
// the server.
func (s *failingServer) target(t *testing.T, log journal.Log, older int) *target.Target {
	t.Helper()
	m := newOnPipes(t, s, log)
	of := m.newTarget(target.Spec{Version: "v1", Resource: "pods"})
	t.Cleanup(func() { of.Marks.Stop() })
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	var err error
	of.Discovery.Source, err = of.Spec.Source(catalog.Resolved{GVR: gvr, Kind: "Pod", Namespaced: true}, m.clients, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.pods {
		e := of.Index.Put(index.ID{Namespace: "a", Name: "p" + strconv.Itoa(i), UID: "u" + strconv.Itoa(i)})
		if e.RV = uint64(i) + 1; i >= s.pods-older {
			e.RV--
		}
	}
	return of
}

// TestComparisonReadsEachPageOnce: a comparison of many objects, and the look-ups that follow
// it, outlast failures that pass. No page is read twice.
func TestComparisonReadsEachPageOnce(t *testing.T) {
	text := func(code int, body string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for name, fail := range map[string]func(w http.ResponseWriter){
		"429 in plain text": text(http.StatusTooManyRequests, "Too many requests, please try again later."),
		"404 of a proxy":    text(http.StatusNotFound, "<html>404 page not found</html>"),
		"502 of a proxy":    text(http.StatusBadGateway, "<html>Bad Gateway</html>"),
		"503":               text(http.StatusServiceUnavailable, "<html>"),
		"200 of a proxy":    text(http.StatusOK, "<html>Please log in</html>"),
		"broken connection": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const pods, older = 200_000, target.BodiesByName
				server, log := &failingServer{pods: pods, fail: fail}, counting{events: make(map[event.Op]int)}
				of := server.target(t, log, older)
				rv, err := of.Compare(t.Context(), of.Objects.NewPass(target.Pass{Newcomer: event.Added, Replay: true}))
				if err != nil || rv != podserver.Revision {
					t.Fatalf("revision %d: %v", rv, err)
				}
				if n := log.events[event.Modified]; n != older || len(log.events) != 1 {
					t.Errorf("events %v, want %d of modified objects", log.events, older)
				}
				if server.first != 1 || server.more != pods/listwatch.PageSize+older {
					t.Errorf("%d requests were answered, %d for the first page", server.more, server.first)
				}
			})
		})
	}
}
