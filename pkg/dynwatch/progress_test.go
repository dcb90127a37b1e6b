package dynwatch_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// starve stops the watch cache at the present revision.
func (f *fakeAPI) starve() {
	f.do(func() { f.starved, f.fresh = f.rev, 0 })
}

// A watch cache that gets nothing from etcd any more sends bookmarks all the same.
func TestStarvedWatchIsReplaced(t *testing.T) {
	api := fourObjects(t)
	r, n := liveHastyFrom(t, api, things())
	api.starve()
	api.do(func() { api.fresh = api.opened }) // the next connection reaches another API server
	breakWith(api, func() {})
	r.eventually("all events", func() bool { return len(r.since(n)) == 8 })
	r.caughtUp()
	for _, e := range r.log.all()[n:] {
		if e.Op == event.Gap || e.Replay {
			t.Errorf("%s", lines([]event.Event{e}))
		}
	}
	if s := r.manager.Targets()[0]; s.Stuck != 1 || s.State != dynwatch.Live {
		t.Errorf("status %+v", s)
	}
	checkStream(t, r.log.all(), api)
}

// Where no connection helps, lists replace the watch, and the state says that it is behind.
func TestStarvedWatchIsReplacedByLists(t *testing.T) {
	api := fourObjects(t)
	r, n := liveHastyFrom(t, api, things())
	api.starve()
	breakWith(api, func() {})
	r.eventually("stale", func() bool {
		s := r.manager.Targets()[0]
		return s.State == dynwatch.Stale && strings.Contains(s.Reason, "the watch is behind")
	})
	r.eventually("all events", func() bool { return len(r.since(n)) >= 7 })
	r.consistent()
	api.put("a", "later", "")
	r.consistent()
	if s := r.manager.Targets()[0]; s.State == dynwatch.Live {
		t.Errorf("status %+v", s)
	}
	api.do(func() { api.starved = 0; api.fresh = 0 })
	api.put("a", "last", "")
	r.consistent()
	r.caughtUp()
	checkStream(t, r.log.all(), api)
}

// Bookmarks at one revision are no progress, unless that is the revision of the store. A server that does not say it
// at first ends no watch.
func TestFrozenBookmarksAreNoProgress(t *testing.T) {
	api := fourObjects(t)
	r := liveHasty(t, api, things())
	watches := r.manager.Targets()[0].Watches
	ofHead := func(r *http.Request) bool { return strings.Contains(r.URL.RawQuery, "informd-no-object") }
	seen := api.refuseTimes(3, ofHead, func(w http.ResponseWriter) { writeStatus(w, 503, "ServiceUnavailable", "busy") })
	before := r.manager.Targets()[0].Progress
	asked := func() bool { return seen.Load() > 3 && r.manager.Targets()[0].Progress.After(before) }
	r.eventually("the revision is asked for", asked)
	if s := r.manager.Targets()[0]; s.Watches != watches || s.Stuck != 0 || s.State != dynwatch.Live {
		t.Errorf("in a quiet store: %+v", s)
	}
	api.starve()
	api.do(func() { api.rev += 10 }) // of other resources
	r.eventually("a watch that is behind", func() bool { return r.manager.Targets()[0].Stuck > 0 })
	// A list shows that nothing is missing.
	r.state(dynwatch.Live)
	if n := len(r.log.all()); n != 5 {
		t.Errorf("events %q", r.since(5))
	}
}

// An audit waits for the watch to pass its list. A watch that never does is replaced, and
// the audit begins again.
func TestAuditOfAStarvedWatch(t *testing.T) {
	api := fourObjects(t)
	r := liveHasty(t, api, things())
	api.starve()
	api.put("a", "changed", "")
	if got := r.auditNow(); got.Err == nil && got.Divergences == 0 && got.Objects == 0 {
		t.Errorf("audit: %+v", got)
	}
	r.consistent()
}

// A silent watch whose list differs twice does not go on as if nothing were missing.
func TestSecondSilentWatchReconciles(t *testing.T) {
	api := fourObjects(t)
	r, n := liveHastyFrom(t, api, things())
	api.do(func() { api.mute = true })
	api.put("a", "changed", "")
	api.del("a", "deleted")
	r.eventually("what the watch does not bring", func() bool { return len(r.since(n)) >= 2 })
	r.consistent()
	want := []string{"deleted a/deleted uid-2 106<102 replay", "gap (104,106] behind known", "modified a/changed uid-1 105<101 replay"}
	r.wantUnordered(n, want...)
}

// TestSilentWatchBesideRejectedObjects: a list has states that no event can have. No watch has left them out.
func TestSilentWatchBesideRejectedObjects(t *testing.T) {
	for name, object := range map[string]string{"of a known object": "same", "of an unknown object": "other"} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := liveHasty(t, api, things())
			api.unemittable(`"name":"` + object + `"`)
			api.put("a", object, "")
			r.caughtUp()
			n := len(r.log.all())
			api.do(func() {
				api.mute = true
				api.rev++ // of another resource
			})
			r.eventually("a list moves the position", func() bool { return r.manager.Targets()[0].ResourceVersion == 106 })
			r.wantEvents(n)
		})
	}
}

// The watch of the definitions is behind, and says nothing of a new one.
func TestStarvedWatchOfNamespaces(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one")
	api.do(func() {
		api.slow = nil
		api.stale = ofNamespaces
	})
	r := liveHasty(t, api, labelled())
	api.starve()
	api.put("", "team-a", "yes")
	began := time.Now()
	r.eventually("team-a is in", func() bool { return len(wrong(r.log.all(), api, false)) == 0 })
	t.Logf("after %v", time.Since(began))
}
