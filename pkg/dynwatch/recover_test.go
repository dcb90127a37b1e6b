package dynwatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
)

// During every break: one object changes twice, one is deleted, one is deleted
// and created again, one is born, one is born and dies, one is left alone.
func breakWith(api *fakeAPI, end func()) {
	api.do(func() { api.mute = true })
	api.put("a", "changed", "yes")   // 105
	api.put("a", "changed", "yes")   // 106
	api.del("a", "deleted")          // 107
	api.del("a", "recreated")        // 108
	api.put("a", "recreated", "yes") // 109, uid-5
	api.put("a", "born", "yes")      // 110, uid-6
	api.put("a", "brief", "yes")     // 111, uid-7
	api.del("a", "brief")            // 112
	end()
	api.do(func() { api.mute = false })
}

func fourObjects(t *testing.T) *fakeAPI {
	return newFakeAPI(t, "a/changed yes", "a/deleted yes", "a/recreated yes", "a/same yes")
}

func TestExpiredHistory(t *testing.T) {
	walked := []string{
		"modified a/changed uid-1 105<101 replay", "modified a/changed uid-1 106<105 replay", "deleted a/deleted uid-2 107<102 replay",
		"deleted a/recreated uid-3 108<103 replay", "added a/recreated uid-5 109 replay", "added a/born uid-6 110 replay",
		"gap (104,112] expired known",
	}
	nameless := func(api *fakeAPI) {
		api.forget()
		api.do(func() { api.nameless = true })
	}
	unlimited := func(*dynwatch.Limits) {}
	cases := map[string]struct {
		end   func(api *fakeAPI)
		limit func(*dynwatch.Limits)
		want  []string
	}{
		"the watch cache still has it": {
			end: func(api *fakeAPI) { api.cut() }, limit: unlimited,
			want: []string{
				"modified a/changed uid-1 105<101", "modified a/changed uid-1 106<105", "deleted a/deleted uid-2 107<102",
				"deleted a/recreated uid-3 108<103", "added a/recreated uid-5 109", "added a/born uid-6 110",
				"added a/brief uid-7 111", "deleted a/brief uid-7 112<111",
			},
		},
		"etcd has the oldest watchable revision": {end: (*fakeAPI).forget, limit: unlimited, want: walked},
		"etcd has the oldest watchable revision, and no budget": {
			end: (*fakeAPI).forget, limit: func(l *dynwatch.Limits) { l.Requests = 0 },
			want: []string{
				"added a/born uid-6 110 replay", "deleted a/deleted uid-2 112<102 replay",
				"deleted a/recreated uid-3 108<103 replay", "added a/recreated uid-5 109 replay",
				"gap (104,112] expired state", "modified a/changed uid-1 106<101 replay",
			},
		},
		"etcd has compacted it": {
			end: func(api *fakeAPI) {
				api.forget()
				api.put("a", "later", "yes") // 113
				api.del("a", "changed")      // 114
				api.compact()
			},
			limit: unlimited,
			want: []string{
				"added a/born uid-6 110 replay", "added a/later uid-8 113 replay", "deleted a/changed uid-1 114<101 replay",
				"deleted a/deleted uid-2 114<102 replay", "deleted a/recreated uid-3 108<103 replay",
				"added a/recreated uid-5 109 replay", "gap (104,114] expired state",
			},
		},
		"the error names no revision": {end: nameless, limit: unlimited, want: walked},
	}
	for name, c := range cases {
		for _, mode := range []dynwatch.Mode{dynwatch.Full, dynwatch.Metadata} {
			t.Run(name+", "+string(mode), func(t *testing.T) {
				api := fourObjects(t)
				wanted := things()
				wanted.Mode = mode
				r := startLimited(t, api, c.limit, wanted)
				r.caughtUp()
				n := len(r.log.all())
				breakWith(api, func() { c.end(api) })
				r.eventually("all events", func() bool { return len(r.log.all()) >= n+len(c.want) })
				r.caughtUp()
				got := r.since(n)
				if diff := cmp.Diff(sorted(c.want), sorted(got)); diff != "" {
					t.Errorf("%s\nin order:\n%s", diff, strings.Join(got, "\n"))
				}
				checkStream(t, r.log.all(), api)
			})
		}
	}
}

func TestManyDifferencesAreFetchedByList(t *testing.T) {
	api := newFakeAPI(t)
	r := startLimited(t, api, func(l *dynwatch.Limits) { l.Requests = 0 }, things())
	r.caughtUp()
	// All at once: a comparison in between would find the rest by name.
	api.do(func() {
		for i := range 700 {
			api.rev++
			api.uids++
			api.history = append(api.history, change{
				rev: api.rev, ns: "a", name: strings.Repeat("x", i+1), uid: fmt.Sprintf("uid-%d", api.uids), created: true,
			})
		}
		api.generation++
		api.oldest = api.rev
	})
	r.caughtUp()
	checkStream(t, r.log.all(), api)
	if byName := api.requestsWith("fieldSelector=metadata.name%3D"); byName != 0 {
		t.Errorf("%d look-ups by name", byName)
	}
}

func TestRollback(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	backup := uint64(104)
	api.put("a", "changed", "yes") // 105
	api.put("a", "lost", "yes")    // 106
	api.put("a", "changed", "yes") // 107
	r.caughtUp()
	n := len(r.log.all())
	api.do(func() { api.mute = true })
	api.rollBack(backup)
	api.put("a", "changed", "no") // 105 again, with another content
	api.do(func() { api.mute = false })
	r.untilEpoch(1)
	r.caughtUp()
	r.wantUnordered(n,
		"deleted a/lost uid-5 105<106 replay", "gap (107,105] rollback state", "modified a/changed uid-1 105<107 replay",
	)
	for _, e := range r.log.all()[n:] {
		if !strings.HasSuffix(e.ID, ":e1") {
			t.Errorf("id %s without its epoch", e.ID)
		}
	}
	api.put("a", "same", "yes")
	r.caughtUp()
	events := r.log.all()
	if last := events[len(events)-1]; last.ID != "uid-4:106:e1" {
		t.Errorf("after the rollback: %s", last.ID)
	}
}

func TestMalformedObjectUnderAnOldName(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	api.unbalanced(`"uid-2"`)
	n := r.lose(func(api *fakeAPI) {
		api.del("a", "x")
		api.put("a", "x", "")
	})
	r.caughtUp()
	r.wantEvents(n, "deleted a/x uid-1 102<101 replay", "gap (101,103] expired known")
}

// The watch goes on one revision before a deletion that came last, since more can
// have ended there. Where the API server's history begins right there, that is
// denied, and what makes up for it must not be denied again.
func TestHistoryThatBeginsAtADeletion(t *testing.T) {
	for name, c := range map[string]struct {
		compact bool
		want    string // the gap
	}{
		"walked":    {want: "gap (102,103] expired known"},
		"compacted": {compact: true, want: "gap (102,104] expired known"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x", "a/y")
			r := live(t, api, things())
			api.del("a", "x") // 103
			r.caughtUp()
			n := len(r.log.all())
			api.do(func() {
				api.generation++
				api.oldest = api.rev
				api.rev++ // of another resource
				if c.compact {
					api.compacted = api.rev
				}
			})
			r.eventually("history is denied", func() bool { return r.manager.Targets()[0].Watches > 2 })
			r.caughtUp()
			api.put("a", "z", "") // 105
			r.caughtUp()
			r.wantEvents(n, c.want, "added a/z uid-3 105")
		})
	}
}

// TestEveryWatchExpires: a server that keeps no history at all is asked at the pace of failures.
func TestEveryWatchExpires(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	before := r.manager.Targets()[0].Failures
	api.keepRefusing(func(r *http.Request) bool {
		return r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/things")
	}, refusal(http.StatusGone, "Expired", "The provided resource version is too old"))
	api.cut()
	r.eventually("pauses", func() bool { return r.manager.Targets()[0].Failures >= before+3 })
	api.admit()
	api.put("a", "x", "")
	r.caughtUp()
	r.consistent()
}
