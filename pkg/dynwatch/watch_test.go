package dynwatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

func TestSnapshotThenLive(t *testing.T) {
	api := newFakeAPI(t, "a/x", "b/y")
	r := live(t, api, things())
	api.put("a", "x", "")
	api.put("a", "z", "")
	api.del("a", "x")
	api.put("a", "x", "")
	r.caughtUp()
	want := []string{
		"snapshot a/x uid-1 101", "snapshot b/y uid-2 102", "synced 102",
		"modified a/x uid-1 103<101", "added a/z uid-3 104", "deleted a/x uid-1 105<103", "added a/x uid-4 106",
	}
	r.wantEvents(0, want...)
	e := r.log.all()[0]
	if got, want := string(e.Data), `{"object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x","namespace":"a","uid":"uid-1","resourceVersion":"101","labels":{"on":""}},"spec":{"rev":101}}}`; got != want {
		t.Errorf("data = %s", got)
	}
	if e.ID != fmt.Sprintf("uid-1:101:r%d", e.Run) || e.Target != "example.com/things" || e.Kind != "Thing" || e.Version != "v1" || e.Cluster != "test" {
		t.Errorf("attributes: %+v", e)
	}
}

func TestMetadataMode(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	wanted := things()
	wanted.Mode = dynwatch.Metadata
	r := live(t, api, wanted)
	api.put("a", "x", "")
	r.caughtUp()
	for _, e := range r.log.all() {
		if strings.Contains(string(e.Data), "spec") || e.Kind != "Thing" || strings.Contains(string(e.Data), "PartialObject") {
			t.Errorf("not metadata of a Thing: %s %s", e.Kind, e.Data)
		}
	}
	r.wantEvents(2, "modified a/x uid-1 102<101")
}

func TestNamespacesAreTargetsOfTheirOwn(t *testing.T) {
	api := newFakeAPI(t, "a/x", "b/y", "c/z")
	wanted := inNamespaces("a", "c")
	r := start(t, api, wanted)
	r.eventually("both synced", func() bool { return len(r.log.all()) == 4 })
	got := r.since(0)
	slices.Sort(got)
	want := []string{"snapshot a/x uid-1 101", "snapshot c/z uid-3 103", "synced 103", "synced 103"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPagedList(t *testing.T) {
	api := newFakeAPI(t)
	const n = 1203 // three pages
	for i := range n {
		api.put("a", "x"+string(rune('a'+i%26))+strings.Repeat("y", i/26), "")
	}
	r := live(t, api, things())
	if got := len(r.log.all()); got != n+1 {
		t.Errorf("%d events, want %d", got, n+1)
	}
	if got := api.requestsWith("continue="); got != 2 {
		t.Errorf("%d continued requests, want 2", got)
	}
}

func TestTransientErrorsResumeWithoutList(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	n := len(r.log.all())
	api.do(func() {
		left := 2 // after failures that last, a list is compared
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			api.mu.Lock()
			defer api.mu.Unlock()
			if verbOf(r) != "watch" {
				return false
			}
			if left--; left >= 0 {
				writeStatus(w, 503, "ServiceUnavailable", "later")
			}
			return left >= 0
		}
	})
	api.cut()
	for range 100 {
		api.put("a", "x", "")
	}
	r.caughtUp()
	if got := len(r.log.all()) - n; got != 100 {
		t.Errorf("%d of 100 revisions:\n%s", got, strings.Join(r.since(n), "\n"))
	}
	if lists := api.requestsWith("limit=500"); lists != 1 {
		t.Errorf("%d lists, want only the first", lists)
	}
}

func TestSelectorTellsLeavingFromDeletion(t *testing.T) {
	api := newFakeAPI(t, "a/in yes", "a/out no")
	wanted := selectingOn()
	r := live(t, api, wanted)
	api.put("a", "in", "no")   // 103 leaves
	api.put("a", "in", "no")   // 104 unseen
	api.put("a", "in", "yes")  // 105 comes back
	api.put("a", "out", "yes") // 106 enters
	api.del("a", "in")         // 107
	api.put("a", "in", "yes")  // 108 new object
	r.caughtUp()
	want := []string{
		"snapshot a/in uid-1 101", "synced 102", "left a/in uid-1 103<101", "entered a/in uid-1 105<103",
		"entered a/out uid-2 106", "deleted a/in uid-1 107<105", "added a/in uid-3 108",
	}
	r.wantEvents(0, want...)
	left := r.log.all()[2]
	if !strings.Contains(string(left.Data), `"labels":{"on":"no"}`) || left.ID != "uid-1:103:left:103" {
		t.Errorf("left shows %s %s", left.ID, left.Data)
	}
}

func TestUnservedResourceComesLater(t *testing.T) {
	api := newFakeAPI(t)
	api.do(func() { api.served = false })
	r := start(t, api, things())
	s := r.state(dynwatch.Waiting)
	if !strings.Contains(s.Reason, `no group "example.com"`) {
		t.Errorf("reason %q", s.Reason)
	}
	api.put("a", "x", "")
	api.do(func() { api.served = true })
	r.caughtUp()
	r.wantEvents(0, "added a/x uid-1 101", "synced 101")
}

func TestForbiddenIsNotEmpty(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	api.keepRefusing(func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/things")
	}, refusal(403, "Forbidden", "not for you"))
	api.cut()
	r.state(dynwatch.Forbidden)
	api.put("a", "x", "")
	api.do(func() { api.refuse = nil })
	r.caughtUp()
	want := []string{"snapshot a/x uid-1 101", "synced 101", "modified a/x uid-1 102<101"}
	r.wantEvents(0, want...)
}

// TestForbiddenListIsNotEmpty: the watch may be opened and says that its history is gone. The
// list that must replace it is forbidden. The requests before and after it are not: each of them
// alone would show that access is denied.
func TestForbiddenListIsNotEmpty(t *testing.T) {
	api := newFakeAPI(t, "a/x", "a/y")
	r := live(t, api, things())
	api.keepRefusing(func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/v1/things") && r.URL.Query().Get("limit") == "500"
	}, refusal(403, "Forbidden", "not for you"))
	api.put("a", "x", "")
	api.compact()
	api.forget()
	api.cut()
	r.state(dynwatch.Forbidden)
	api.do(func() { api.refuse = nil })
	r.caughtUp()
	r.eventually("the change", func() bool { return len(r.since(0)) == 5 })
	want := []string{"snapshot a/x uid-1 101", "snapshot a/y uid-2 102", "synced 102", "modified a/x uid-1 103<101 replay", "gap (102,103] expired known"}
	r.wantEvents(0, want...)
}

func TestMalformedObjectIsRejectedAndTheOthersFlow(t *testing.T) {
	api := newFakeAPI(t, "a/good")
	api.do(func() {
		api.mangle = func(s string) string {
			if strings.Contains(s, `"name":"bad"`) {
				return strings.Replace(s, `"spec":{`, `"spec":{{`, 1)
			}
			return s
		}
	})
	r := live(t, api, things())
	api.put("a", "bad", "")
	api.put("a", "good", "")
	r.caughtUp()
	want := []string{"snapshot a/good uid-1 101", "synced 101", "modified a/good uid-1 103<101"}
	r.wantEvents(0, want...)
	if len(r.log.rejected) != 1 || r.log.rejected[0].Name != "bad" || r.log.rejected[0].ResourceVersion != 102 {
		t.Errorf("rejected: %+v", r.log.rejected)
	}
}

func TestSilentWatchIsOpenedAgain(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := liveHasty(t, api, things())
	api.do(func() { api.mute = true })
	api.put("a", "x", "")
	before := r.manager.Targets()[0].Watches
	r.eventually("opened again", func() bool { return r.manager.Targets()[0].Watches > before })
	api.do(func() { api.mute = false })
	r.caughtUp()
	want := []string{"snapshot a/x uid-1 101", "synced 101", "modified a/x uid-1 102<101"}
	r.wantEvents(0, want...)
}

func TestQuietWatchWithoutBookmarksKeepsItsCursorFresh(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := liveHasty(t, api, things())
	api.do(func() { api.mute = true; api.rev += 50 }) // writes to other resources
	r.eventually("cursor moved", func() bool { return r.manager.Targets()[0].ResourceVersion == 151 })
}

// TestQuietWatchWithAnExpiredList: the list that a quiet watch is compared with takes too long.
// That says nothing about the history of the watch: checkpoints continue.
func TestQuietWatchWithAnExpiredList(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := liveHasty(t, api, things())
	var expired atomic.Bool
	api.do(func() {
		api.mute = true
		api.rev += 50 // writes to other resources
		api.refuse = func(w http.ResponseWriter, req *http.Request) bool {
			q := req.URL.Query()
			compares := !q.Has("watch") && metadataOnly(req) && q.Get("fieldSelector") == "" && strings.HasSuffix(req.URL.Path, "/things")
			if !compares || !expired.CompareAndSwap(false, true) {
				return false
			}
			writeStatus(w, 410, "Expired", "The provided continue parameter is too old")
			return true
		}
	})
	r.eventually("a checkpoint behind the list", func() bool {
		return strings.Contains(string(r.log.marksNow()["example.com/things"]), `"rv":151,`)
	})
	if !expired.Load() {
		t.Error("no list has expired")
	}
}

func TestDeadWatchLosesNothing(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := liveHasty(t, api, things())
	api.freeze()
	api.put("a", "brief", "")
	api.del("a", "brief") // a list now equals what it was before
	r.caughtUp()
	checkStream(t, r.log.all(), api)
}

func TestObjectsThatEndAtOneRevision(t *testing.T) {
	api := newFakeAPI(t)
	names := []string{"e1", "e2", "e3", "e4", "e5"}
	for _, name := range names {
		api.put("a", name, "")
	}
	r := live(t, api, things())
	api.expire("a", names[:2]...)
	r.eventually("two ends", func() bool { return r.manager.Targets()[0].Objects == 3 })
	api.do(func() { api.breakAfter = 2 }) // cut among them
	api.expire("a", names[2:]...)
	r.eventually("all ends", func() bool { return r.manager.Targets()[0].Objects == 0 })
	api.put("a", "e1", "")
	r.caughtUp()
	checkStream(t, r.log.all(), api)
}

func TestFirstListBreaksOff(t *testing.T) {
	cases := map[string]struct {
		code int
		gap  bool
	}{
		"and is continued":        {503, false},
		"and cannot be continued": {410, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			for i := range 600 {
				api.put("a", fmt.Sprintf("n%03d", i), "")
			}
			broken := false
			api.do(func() {
				api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Query().Get("continue") == "" || broken {
						return false
					}
					broken = true
					for range 3 {
						api.put("a", "n001", "") // announced already
					}
					writeStatus(w, c.code, map[int]string{503: "ServiceUnavailable", 410: "Expired"}[c.code], "broken")
					return true
				}
			})
			r := live(t, api, things())
			checkStream(t, r.log.all(), api)
			gaps := 0
			for _, e := range r.log.all() {
				if e.Op == event.Gap {
					gaps++
				}
			}
			if (gaps == 1) != c.gap || gaps > 1 {
				t.Errorf("%d gaps", gaps)
			}
		})
	}
}

// TestFirstListIsRefused: the API server refuses the continue token of the first list for good.
func TestFirstListIsRefused(t *testing.T) {
	api := newFakeAPI(t)
	for i := range 600 {
		api.put("a", fmt.Sprintf("n%03d", i), "") // 101 to 700
	}
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			refused := strings.HasPrefix(r.URL.Query().Get("continue"), "700-")
			if refused {
				api.put("a", "n001", "") // announced already
				writeStatus(w, 400, "BadRequest", "continue key is not valid")
			}
			return refused
		}
	})
	r := live(t, api, things())
	checkStream(t, r.log.all(), api)
	if got := count(r.log.all(), event.Gap); got != 1 {
		t.Errorf("%d gaps, want 1", got)
	}
}

// TestFirstListIsRefusedOnce: one of several API servers, or a proxy, refuses the continue token of the first list once.
// The list goes on where it was.
func TestFirstListIsRefusedOnce(t *testing.T) {
	api := newFakeAPI(t)
	for i := range 600 {
		api.put("a", fmt.Sprintf("n%03d", i), "") // 101 to 700
	}
	var once sync.Once
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) (refused bool) {
			if r.URL.Query().Get("continue") != "" {
				once.Do(func() {
					refused = true
					api.put("a", "n001", "") // announced already
					writeStatus(w, 400, "BadRequest", "continue key is not valid")
				})
			}
			return refused
		}
	})
	r := live(t, api, things())
	checkStream(t, r.log.all(), api)
	if got := count(r.log.all(), event.Gap); got != 0 {
		t.Errorf("%d gaps, want none", got)
	}
}

func TestResourceGoneWithItsObjects(t *testing.T) {
	api := newFakeAPI(t, "a/x", "a/y")
	r := live(t, api, things())
	n := len(r.log.all())
	api.do(func() { api.mute = true })
	api.del("a", "x")
	api.del("a", "y")
	api.do(func() { api.served = false; api.generation++ })
	r.eventually("ends", func() bool { return len(r.log.all()) == n+3 })
	want := []string{"deleted a/x uid-1 103<101 replay", "deleted a/y uid-2 103<102 replay", "gap (102,103] unserved state"}
	r.wantUnordered(n, want...)
	api.put("a", "x", "") // 105, a new resource of the same name
	api.do(func() { api.served, api.mute = true, false })
	r.caughtUp()
	r.wantEvents(n+3, "added a/x uid-3 105", "synced 105")
}

func TestWatchThatEndsSoonIsNotOpenedAtOnce(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	live(t, api, things())
	const enough = 30
	watches := 0
	began := time.Now()
	done := make(chan time.Duration, 1)
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("watch") == "" {
				return false
			}
			if watches++; watches == enough {
				done <- time.Since(began)
			}
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"resourceVersion":"101"}}}`)
			return true
		}
	})
	api.cut()
	if took := <-done; took < (enough-1)*5*time.Millisecond {
		t.Errorf("%d watches in %v, want a pause of 5 ms before each", enough, took)
	}
}

func TestThrottlingShowsAtOnce(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "1")
			writeStatus(w, 429, "TooManyRequests", "storage is (re)initializing")
			return true
		}
	})
	api.cut()
	r.eventually("shown", func() bool {
		s := r.manager.Targets()[0]
		return s.State == dynwatch.Stale && strings.Contains(s.Reason, "initializing")
	})
	api.do(func() { api.refuse = nil })
	r.caughtUp()
}

func TestMalformedObjectUnderASelector(t *testing.T) {
	api := newFakeAPI(t, "a/bad yes", "a/good yes")
	api.do(func() {
		api.mangle = func(s string) string {
			if strings.Contains(s, `"on":"no"`) {
				return strings.Replace(s, `"spec":{`, `"spec":{{`, 1)
			}
			return s
		}
	})
	wanted := selectingOn()
	r := live(t, api, wanted)
	n := len(r.log.all())
	api.put("a", "bad", "no")   // 103 leaves in a state that cannot be passed on
	api.put("a", "good", "yes") // 104
	api.put("a", "bad", "yes")  // 105 enters
	r.caughtUp()
	want := []string{"left a/bad uid-1 103<101", "modified a/good uid-2 104<102", "entered a/bad uid-1 105<103"}
	r.wantEvents(n, want...)
	if len(r.log.rejected) != 1 || r.log.rejected[0].Name != "bad" {
		t.Errorf("rejected %+v", r.log.rejected)
	}
}

// A DELETED frame whose object cannot be read may say that the object has left the selection.
func TestMalformedEndsUnderASelector(t *testing.T) {
	api := newFakeAPI(t)
	api.put("a", "leaves", "yes") // 101
	api.put("a", "ends", "yes")   // 102
	wanted := selectingOn()
	r := live(t, api, wanted)
	n := len(r.log.all())
	api.do(func() {
		api.mangle = func(s string) string {
			if strings.Contains(s, `"103","labels":{"on":"yes"`) || strings.Contains(s, `"104"`) {
				return strings.Replace(s, `"spec":{`, `"spec":{{`, 1) // the objects of the DELETED frames
			}
			return s
		}
	})
	api.put("a", "leaves", "no")  // 103
	api.del("a", "ends")          // 104
	api.put("a", "leaves", "yes") // 105
	r.caughtUp()
	want := []string{"left a/leaves uid-1 103<101", "deleted a/ends uid-2 104<102", "entered a/leaves uid-1 105<103"}
	r.wantEvents(n, want...)
	if len(r.log.rejected) != 2 {
		t.Errorf("rejected %+v", r.log.rejected)
	}
}

// Of objects whose beginning no watch brought, one leaves the selector and one is deleted:
// what was never told of has nowhere to leave.
func TestWhatWasNeverToldOfDoesNotLeave(t *testing.T) {
	api := newFakeAPI(t)
	api.do(func() {
		api.left = func(frame string) bool { return strings.Contains(frame, `"ADDED"`) }
	})
	wanted := selectingOn()
	r := live(t, api, wanted)
	n := len(r.log.all())
	api.put("a", "leaves", "yes") // 101
	api.put("a", "ends", "yes")   // 102
	api.put("a", "leaves", "no")  // 103
	api.del("a", "ends")          // 104
	r.eventually("the deletion", func() bool { return len(r.log.all()) > n })
	r.wantEvents(n, "deleted a/ends uid-2 104")
}

// TestLateFramesUnderASelectorDeleteOnce: etcd has compacted what tells a deletion from leaving, so the present
// tells, as a replay. A gap follows only if that was wrong.
func TestLateFramesUnderASelectorDeleteOnce(t *testing.T) {
	for name, c := range map[string]struct {
		write func(api *fakeAPI)
		want  []string
	}{
		"left, came back, deleted": {
			func(api *fakeAPI) { api.put("a", "x", "no"); api.put("a", "x", "yes"); api.del("a", "x") },
			[]string{"deleted a/x uid-1 102<101 replay", "gap (101,105] expired state"},
		},
		"left, and came back": {
			func(api *fakeAPI) { api.put("a", "x", "no"); api.put("a", "x", "yes") },
			[]string{"left a/x uid-1 102<101 replay", "entered a/x uid-1 103<102 replay"},
		},
		"left": {
			func(api *fakeAPI) { api.put("a", "x", "no") },
			[]string{"left a/x uid-1 102<101 replay"},
		},
		"deleted": {
			func(api *fakeAPI) { api.del("a", "x") },
			[]string{"deleted a/x uid-1 102<101 replay"},
		},
		"deleted, and created again": {
			func(api *fakeAPI) { api.del("a", "x"); api.put("a", "x", "yes") },
			[]string{"deleted a/x uid-1 102<101 replay", "added a/x uid-2 103 replay"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x yes")
			wanted := selectingOn()
			r := live(t, api, wanted)
			n := len(r.log.all())
			api.do(func() { api.mute = true })
			c.write(api)
			api.put("a", "z", "no")
			api.compact() // the watch cache still has it all
			api.do(func() { api.mute = false })
			r.caughtUp()
			r.eventually("events", func() bool { return len(r.log.all()) >= n+len(c.want) })
			r.wantEvents(n, c.want...)
		})
	}
}

// TestLateStayThatEtcdRemembers: etcd has compacted the revision at which an object left, and not the one at which it
// came back. That it is deleted since is no rollback.
func TestLateStayThatEtcdRemembers(t *testing.T) {
	api := newFakeAPI(t, "a/x yes")
	wanted := selectingOn()
	r := live(t, api, wanted)
	n := len(r.log.all())
	api.do(func() { api.mute = true })
	api.put("a", "x", "no")
	api.put("a", "x", "yes")
	api.compact()
	api.del("a", "x")
	api.do(func() { api.mute = false })
	r.caughtUp()
	r.wantEvents(n, "deleted a/x uid-1 102<101 replay", "gap (101,104] expired state")
	r.wantEpoch(0)
}

func TestFullLogHoldsTheWatchBack(t *testing.T) {
	api := newFakeAPI(t)
	r := live(t, api, things())
	release := r.log.hold()
	api.put("a", "x", "")
	r.eventually("blocked", func() bool { return r.manager.Targets()[0].Blocked })
	for range 50 {
		api.put("a", "x", "")
	}
	if n := len(r.log.all()); n != 1 {
		t.Fatalf("%d events got through", n)
	}
	release()
	r.caughtUp()
	if n := len(r.log.all()); n != 52 {
		t.Errorf("%d events, want 52", n)
	}
}

func TestApplyConverges(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	watches := func() int { return api.requestsWith("watch=true") }
	opened := watches()
	must(t, r.manager.Apply([]dynwatch.Resource{things(), {Group: "example.com", Resource: "others"}}))
	r.eventually("two targets", func() bool {
		s := r.manager.Targets()
		return len(s) == 2 && s[0].State == dynwatch.Waiting
	})
	if watches() != opened {
		t.Error("the untouched target was restarted")
	}
	if err := r.manager.Apply([]dynwatch.Resource{things(), things()}); err == nil || !strings.Contains(err.Error(), "listed twice") {
		t.Errorf("doubled resource: %v", err)
	}
	if err := r.manager.Apply(nil); err != nil || len(r.manager.Targets()) != 0 {
		t.Errorf("apply nothing: %v, %v", err, r.manager.Targets())
	}
	n := len(r.log.all())
	api.put("a", "x", "")
	must(t, r.manager.Apply([]dynwatch.Resource{things()}))
	r.caughtUp()
	r.wantEvents(n, "modified a/x uid-1 102<101")
}

func TestUnreachableServerShowsAndHeals(t *testing.T) {
	api := newFakeAPI(t)
	api.do(func() {
		api.refuse = func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
	})
	r := start(t, api, things())
	if s := r.state(dynwatch.Degraded); s.Reason == "" || time.Since(s.Since) > deadline {
		t.Errorf("status %+v", s)
	}
	api.do(func() { api.refuse = nil })
	r.caughtUp()
}
