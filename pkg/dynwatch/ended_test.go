package dynwatch_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
)

// endWatches has watches of things end as end has them, which answers one.
func endWatches(api *fakeAPI, end func(w http.ResponseWriter, r *http.Request)) {
	api.do(func() {
		api.generation++
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if !ofThings(r) || verbOf(r) != "watch" {
				return false
			}
			end(w, r)
			return true
		}
	})
}

func atOnce(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// TestWatchesThatEndAtOnce: the server answers each watch with 200 and ends it, never with 410.
// A list shows what the watches do not bring, also after a restart, and the gap says so.
func TestWatchesThatEndAtOnce(t *testing.T) {
	for name, end := range map[string]func(w http.ResponseWriter, r *http.Request){
		"empty": atOnce,
		"after several ticks": func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush() //nolint:errcheck // the request is over then
			select {
			case <-time.After(200 * time.Millisecond):
			case <-r.Context().Done():
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fourObjects(t)
			r := newRig(t, api)
			r.hasty = true
			r.goLive(things())
			endWatches(api, end)
			for i, restart := range []bool{false, true} {
				n := len(r.log.all())
				if restart {
					r.stop(false)
				}
				api.del("a", []string{"deleted", "changed"}[i])
				api.put("a", fmt.Sprint("new-", i), "yes")
				api.do(func() { api.compacted = api.rev }) // the rest of the history is gone
				if restart {
					r.begin(things())
				}
				r.untilGap(n, "behind")
				r.consistent()
				if got := r.since(n); len(got) != 3 {
					t.Errorf("a deletion, a new object and a gap are missing: %q", got)
				}
			}
			if s := r.manager.Targets()[0]; s.Stuck == 0 {
				t.Errorf("status %+v", s)
			}
			r.state(dynwatch.Stale)
			api.admit()
			api.put("a", "last", "yes")
			r.consistent()
			r.caughtUp()
			checkStream(t, r.log.all(), api)
		})
	}
}

// TestUnreadableHeadIsNoProgress: a third of the questions for the newest revision fail. How far the
// store is remains unknown then.
func TestUnreadableHeadIsNoProgress(t *testing.T) {
	api := fourObjects(t)
	r := liveHasty(t, api, things())
	endWatches(api, atOnce)
	var asked atomic.Int64
	api.do(func() {
		refuse := api.refuse
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if ofThings(r) && r.URL.Query().Get("limit") == "1" && asked.Add(1)%3 == 1 {
				writeStatus(w, 500, "InternalError", "not now")
				return true
			}
			return refuse(w, r)
		}
	})
	api.del("a", "deleted")
	r.consistent()
}

// TestComparisonThatFails: a list that fails deletes nothing, and watches are opened all the same.
func TestComparisonThatFails(t *testing.T) {
	api := fourObjects(t)
	r := liveHasty(t, api, things())
	endWatches(api, atOnce)
	var lists, healed atomic.Int64
	api.do(func() {
		refuse := api.refuse
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if comparison(r) && healed.Load() == 0 {
				lists.Add(1)
				fmt.Fprint(w, `{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"name":"x","resourceVersion":"900"}}`)
				return true
			}
			return healed.Load() == 0 && refuse(w, r)
		}
	})
	n := len(r.log.all())
	api.del("a", "deleted")
	r.eventually("three comparisons", func() bool { return lists.Load() >= 3 })
	healed.Store(1)
	r.caughtUp()
	r.wantEvents(n, "deleted a/deleted uid-2 105<102")
}

// comparison reports whether a request is for all things, without their content.
func comparison(r *http.Request) bool {
	q := r.URL.Query()
	return ofThings(r) && metadataOnly(r) && q.Get("limit") == "500" && q.Get("fieldSelector") == ""
}

// TestWatchesThatEndSoonLoseNothing: a proxy ends each watch soon after it has brought what
// happened. What a list shows a moment earlier than the watch is no gap.
func TestWatchesThatEndSoonLoseNothing(t *testing.T) {
	api := fourObjects(t)
	r, n := liveHastyFrom(t, api, things())
	endWatches(api, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
		defer cancel()
		api.serveWatch(withoutBookmarks{w}, r.WithContext(ctx), "")
	})
	var compared atomic.Int64
	api.do(func() {
		refuse := api.refuse
		api.rev++ // of another resource
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if comparison(r) && compared.Add(1) <= 3 {
				api.put("a", "new", "yes") // after the last watch has ended
				api.do(func() { api.rev++ })
			}
			return refuse(w, r)
		}
	})
	r.eventually("three comparisons", func() bool { return compared.Load() >= 3 })
	r.consistent()
	r.wantEvents(n, "added a/new uid-5 106", "modified a/new uid-5 108<106", "modified a/new uid-5 110<108")
}

// withoutBookmarks leaves bookmarks out.
type withoutBookmarks struct{ http.ResponseWriter }

func (w withoutBookmarks) Write(frame []byte) (int, error) {
	if strings.Contains(string(frame), `"BOOKMARK"`) {
		return len(frame), nil
	}
	return w.ResponseWriter.Write(frame)
}

func (w withoutBookmarks) Flush() {
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

// TestEndedWatchesOfNamespaces: the watch of the Namespaces ends at once each time, and a list shows
// the label that makes a namespace match.
func TestEndedWatchesOfNamespaces(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one")
	r := liveHasty(t, api, labelled())
	api.keepRefusing(func(r *http.Request) bool {
		return r.URL.Path == namespacesPath && verbOf(r) == "watch"
	}, func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) })
	api.cut()
	api.put("", "team-a", "yes")
	r.eventually("team-a matches", func() bool { return len(wrong(r.log.all(), api, false)) == 0 })
}
