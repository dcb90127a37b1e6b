package dynwatch_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// lose has the target miss what is written, and the API server forget it.
func (r *rig) lose(write func(api *fakeAPI)) (n int) {
	r.t.Helper()
	r.caughtUp()
	n = len(r.log.all())
	r.api.do(func() { r.api.mute = true })
	write(r.api)
	r.api.forget()
	r.api.do(func() { r.api.mute = false })
	return n
}

// gap waits for one and returns what came before it, and the gap.
func (r *rig) gap(n int) (before []string, gap event.GapInfo) {
	r.t.Helper()
	r.eventually("a gap", func() bool {
		for _, e := range r.log.all()[n:] {
			if e.Op == event.Gap {
				gap = *e.Gap
				return true
			}
		}
		return false
	})
	r.caughtUp()
	for _, line := range r.since(n) {
		if !strings.HasPrefix(line, "gap ") {
			before = append(before, line)
		}
	}
	checkStream(r.t, r.log.all(), r.api)
	return before, gap
}

func (r *rig) wantGap(n int, want event.Recovered) {
	r.t.Helper()
	if _, gap := r.gap(n); gap.Recovered != want {
		r.t.Errorf("gap %+v, want it to be %s", gap, want)
	}
}

// byNameAt returns the revision that a look-up of a name asks for, 0 if r is
// another request.
func byNameAt(r *http.Request, name string) uint64 {
	if !strings.HasPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="+name) {
		return 0
	}
	rv, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	return rv
}

// A process dies after a list has brought new states of what etcd has forgotten: the next one
// does not say that all is known.
func TestDeathAfterAListOfForgottenHistory(t *testing.T) {
	api := fourObjects(t)
	r, n := liveFrom(t, api, things())
	api.do(func() { api.mute = true })
	api.putTimes(3, "a", "changed", "yes")
	behind := fmt.Sprint(api.rev) // the watch that ends the making up
	api.forget()
	api.do(func() {
		api.rev++ // of another resource
		api.compacted = api.rev
		api.mute = false
	})
	api.keepRefusing(func(r *http.Request) bool {
		return r.URL.Query().Has("watch") && r.URL.Query().Get("resourceVersion") == behind
	}, refusal(503, "ServiceUnavailable", "not now"))
	r.eventually("the listed state", func() bool { return len(r.log.all()) > n })
	r.stop(true)
	api.admit()
	r.begin(things())
	if _, gap := r.gap(n); gap.Recovered == event.RecoveredKnown {
		t.Errorf("gap %+v", gap)
	}
}

func TestWalkFindsEveryLifeUnderOneName(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := start(t, api, things())
	n := r.lose(func(api *fakeAPI) {
		api.put("a", "x", "") // 102
		api.putTimes(8, "a", "other", "")
		api.del("a", "x") // 111
		for range 3 {     // each for 5 revisions, with 1 between
			api.putTimes(5, "a", "x", "")
			api.del("a", "x")
		}
		api.put("a", "x", "") // 130, uid-6
		api.put("a", "x", "")
	})
	lines, gap := r.gap(n)
	if gap.Recovered != event.RecoveredKnown {
		t.Errorf("gap %+v", gap)
	}
	var ends []string
	for _, line := range lines {
		if strings.HasPrefix(line, "deleted") {
			ends = append(ends, line)
		}
	}
	// The bisection for the end of uid-1 comes by the next one.
	for _, want := range []string{"deleted a/x uid-1 111<102 replay", "deleted a/x uid-3 117<116 replay"} {
		if !slices.Contains(ends, want) {
			t.Errorf("no %q in %q", want, lines)
		}
	}
}

func TestWalkedDeletionCarriesTheLastState(t *testing.T) {
	for name, bodies := range map[string]int{"all states": 1 << 20, "the last one only": 1} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x", "a/same")
			r := startLimited(t, api, func(l *dynwatch.Limits) { l.Bodies = bodies }, things())
			n := r.lose(func(api *fakeAPI) {
				for range 20 {
					api.put("a", "x", "") // up to 122
				}
				api.del("a", "x") // 123
				api.del("a", "same")
			})
			r.wantGap(n, map[bool]event.Recovered{true: event.RecoveredKnown, false: event.RecoveredPartial}[bodies > 1])
			for _, e := range r.log.all()[n:] {
				want := map[string]uint64{"x": 122, "same": 102}[e.Name]
				if e.Op != event.Deleted {
					continue
				}
				var data struct {
					Object struct{ Spec struct{ Rev uint64 } }
					Final  bool
				}
				if err := json.Unmarshal(e.Data, &data); err != nil || !data.Final || data.Object.Spec.Rev != want {
					t.Errorf("%s: %v, %s", e.ID, err, e.Data)
				}
			}
			for _, e := range r.log.all() {
				if !json.Valid(e.Data) && !e.Op.Control() {
					t.Errorf("%s: %s", e.ID, e.Data)
				}
			}
		})
	}
}

func TestWalkOfAHotObjectHoldsFewBodies(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := startLimited(t, api, func(l *dynwatch.Limits) { l.Bodies = 2000 }, things())
	n := r.lose(func(api *fakeAPI) {
		api.putTimes(500, "a", "x", "")
	})
	got, gap := r.gap(n)
	if gap.Recovered != event.RecoveredPartial || len(got) < 5 || len(got) > 50 {
		t.Errorf("%d events, gap %+v", len(got), gap)
	}
	asked := api.requestsWith("fieldSelector=metadata.name%3D")
	if s := r.manager.Targets()[0]; s.WalkRequests+2 < uint64(asked) || s.WalkRequests > uint64(asked) || s.Gaps["expired"] != 1 || len(s.Gaps) != 1 {
		t.Errorf("the status has %d requests and the gaps %v, and the API server saw %d requests", s.WalkRequests, s.Gaps, asked)
	}
}

func TestWalkKeepsItsBudget(t *testing.T) {
	for _, budget := range []int{1, 20, 50} {
		api := newFakeAPI(t)
		for i := range 10 {
			api.put("a", fmt.Sprint("n", i), "")
		}
		r := startLimited(t, api, func(l *dynwatch.Limits) { l.Requests = budget }, things())
		n := r.lose(func(api *fakeAPI) {
			for i := range 100 {
				api.put("a", fmt.Sprint("n", i%10), "")
			}
		})
		r.wantGap(n, event.RecoveredPartial)
		const final = 10 // the listed states are fetched beside it
		if asked := api.requestsWith("fieldSelector=metadata.name%3D"); asked != budget+final {
			t.Errorf("budget %d: %d requests", budget, asked)
		}
	}
}

func TestWalkStopsInTime(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := startLimited(t, api, func(l *dynwatch.Limits) { l.Time = 500 * time.Millisecond }, things())
	r.caughtUp()
	api.before(func(r *http.Request) bool {
		at := byNameAt(r, "x")
		return 0 < at && at < 150
	}, func(r *http.Request, _ int64) { <-r.Context().Done() })
	n := r.lose(func(api *fakeAPI) { api.putTimes(100, "a", "x", "") })
	r.wantGap(n, event.RecoveredPartial)
}

func TestWalkEndsWhereEtcdHasCompacted(t *testing.T) {
	api := newFakeAPI(t, "a/changed", "a/early", "a/late", "a/cold")
	r := start(t, api, things())
	n := r.lose(func(api *fakeAPI) {
		api.put("a", "changed", "") // 105
		api.put("a", "changed", "") // 106
		api.del("a", "early")       // 107
		api.put("a", "cold", "")    // 108
		api.put("a", "changed", "") // 109
		api.compact()
		api.put("a", "changed", "") // 110
		api.put("a", "late", "")    // 111
		api.del("a", "late")        // 112
		api.put("a", "born", "")    // 113
	})
	got, gap := r.gap(n)
	if gap.Recovered != event.RecoveredPartial {
		t.Errorf("gap %+v", gap)
	}
	want := []string{
		"added a/born uid-5 113 replay", "deleted a/early uid-2 109<102 replay", "deleted a/late uid-3 112<111 replay",
		"modified a/changed uid-1 109<101 replay", "modified a/changed uid-1 110<109 replay",
		"modified a/cold uid-4 108<104 replay", "modified a/late uid-3 111<103 replay",
	}
	same(t, want, sorted(got))
}

func TestWalkWaitsWhenThrottled(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	var refused time.Time
	var early int
	api.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		at := byNameAt(r, "x")
		if at == 0 || at >= 130 {
			return false
		}
		api.mu.Lock()
		defer api.mu.Unlock()
		if refused.IsZero() {
			refused = time.Now()
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
			return true
		}
		if time.Since(refused) < time.Second {
			early++
		}
		return false
	})
	n := r.lose(func(api *fakeAPI) { api.putTimes(40, "a", "x", "") })
	r.wantGap(n, event.RecoveredKnown)
	if early != 0 || refused.IsZero() {
		t.Errorf("%d requests within the second; refused at %v", early, refused)
	}
}

func TestWalkHasFewRequestsOpen(t *testing.T) {
	api := newFakeAPI(t)
	r := live(t, api, things())
	var mu sync.Mutex
	open, most := 0, 0
	count := func(change int) {
		mu.Lock()
		defer mu.Unlock()
		open += change
		most = max(most, open)
	}
	api.before(func(r *http.Request) bool { return byNameAt(r, "") != 0 }, func(*http.Request, int64) {
		count(1)
		<-time.After(2 * time.Millisecond)
		count(-1)
	})
	n := r.lose(func(api *fakeAPI) {
		api.putMany(50, "")
		api.putMany(50, "")
	})
	r.wantGap(n, event.RecoveredKnown)
	if most < 2 || most > 8 {
		t.Errorf("up to %d requests at a time", most)
	}
}

// What died over an incomplete walk must not claim on its return that all was
// found: the index looks as if it were.
func TestKilledOverAnIncompleteWalk(t *testing.T) {
	api := newFakeAPI(t, "a/x", "a/y")
	r := live(t, api, things())
	r.eventually("a mark", func() bool { return len(r.log.marksNow()) > 0 })
	api.before(func(r *http.Request) bool {
		return byNameAt(r, "y") != 0 && r.URL.Query().Get("fieldSelector") == "metadata.name=y"
	}, func(r *http.Request, _ int64) { <-r.Context().Done() })
	n := r.lose(func(api *fakeAPI) {
		api.putTimes(3, "a", "x", "") // 103 to 105
		api.putTimes(2, "a", "y", "") // 106 and 107
		api.do(func() { api.compacted = 104 })
	})
	r.eventually("part of it", func() bool { return len(r.log.all()) > n })
	r.stop(true)
	api.admit()
	r.begin(things())
	r.wantGap(n, event.RecoveredPartial)
}

// The API server that a restart meets may still have what is being made up for;
// the index is ahead of it, so it must not be asked.
func TestReconcileGoesOnAfterARestart(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := startLimited(t, api, func(l *dynwatch.Limits) { l.Requests = 0 }, things())
	r.caughtUp()
	release := func() {}
	n := r.lose(func(api *fakeAPI) {
		release = r.log.hold()
		api.put("a", "x", "")
		api.put("a", "x", "")
	})
	r.eventually("blocked", func() bool { return !r.manager.Targets()[0].BlockedSince.IsZero() })
	r.stop(true)
	release()
	api.do(func() { api.oldest = 0 })
	r.begin(things())
	r.wantGap(n, event.RecoveredState)
}

func TestExpiredHistoryUnderASelector(t *testing.T) {
	write := func(api *fakeAPI) {
		api.put("a", "changed", "no")    // 105 leaves
		api.del("a", "deleted")          // 106
		api.put("a", "changed", "no")    // 107
		api.put("a", "outside", "no")    // 108
		api.put("a", "same", "yes")      // 109
		api.put("a", "same", "yes")      // 110
		api.put("a", "recreated", "no")  // 111 leaves
		api.put("a", "recreated", "no")  // 112
		api.put("a", "recreated", "yes") // 113 comes back
		api.put("a", "recreated", "yes") // 114
		api.put("a", "outside", "yes")   // 115 enters
	}
	common := []string{
		"deleted a/deleted uid-2 106<102 replay",
		"entered a/outside uid-5 115 replay",
		"entered a/recreated uid-3 113<111 replay",
		"left a/changed uid-1 105<101 replay",
		"left a/recreated uid-3 111<103 replay",
		"modified a/recreated uid-3 114<113 replay",
		"modified a/same uid-4 109<104 replay",
		"modified a/same uid-4 110<109 replay",
	}
	for name, c := range map[string]struct {
		limit func(*dynwatch.Limits)
		want  []string
	}{
		"walk": {func(*dynwatch.Limits) {}, append(slices.Clone(common), "gap (104,115] expired partial")},
		"no budget": {
			func(l *dynwatch.Limits) { l.Requests = 0 },
			[]string{
				"deleted a/deleted uid-2 115<102 replay",
				"entered a/outside uid-5 115 replay",
				"gap (104,115] expired state",
				"left a/changed uid-1 107<101 replay",
				"modified a/recreated uid-3 114<103 replay",
				"modified a/same uid-4 110<104 replay",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := selectingOn()
			r := startLimited(t, fourObjects(t), c.limit, wanted)
			n := r.lose(write)
			r.eventually("all events", func() bool { return len(r.log.all()) >= n+len(c.want) })
			r.caughtUp()
			got := r.since(n)
			// An object that did not match before may have begun inside the range.
			for i := range got {
				got[i] = strings.Replace(got[i], "added a/outside", "entered a/outside", 1)
			}
			if diff := cmp.Diff(sorted(c.want), sorted(got)); diff != "" {
				t.Errorf("%s\nin order:\n%s", diff, strings.Join(got, "\n"))
			}
		})
	}
}
