package dynwatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
	r.wantEvents(0,
		"snapshot a/x uid-1 101", "snapshot b/y uid-2 102", "synced 102",
		"modified a/x uid-1 103<101", "added a/z uid-3 104", "deleted a/x uid-1 105<103", "added a/x uid-4 106",
	)
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

func TestTransientErrorsResumeWithoutList(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r, n := liveFrom(t, api, things())
	api.refuseTimes(2, isWatch, refusal(503, "ServiceUnavailable", "later")) // after more a list is compared
	api.cut()
	api.putTimes(100, "a", "x", "")
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
	r := live(t, api, selectingOn())
	api.put("a", "in", "no")   // 103 leaves
	api.put("a", "in", "no")   // 104 unseen
	api.put("a", "in", "yes")  // 105 comes back
	api.put("a", "out", "yes") // 106 enters
	api.del("a", "in")         // 107
	api.put("a", "in", "yes")  // 108 new object
	r.caughtUp()
	r.wantEvents(0,
		"snapshot a/in uid-1 101", "synced 102", "left a/in uid-1 103<101", "entered a/in uid-1 105<103",
		"entered a/out uid-2 106", "deleted a/in uid-1 107<105", "added a/in uid-3 108",
	)
	left := r.log.all()[2]
	if !strings.Contains(string(left.Data), `"labels":{"on":"no"}`) || left.ID != "uid-1:103:left:103" {
		t.Errorf("left shows %s %s", left.ID, left.Data)
	}
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
	api.admit()
	r.caughtUp()
	r.eventually("the change", func() bool { return len(r.since(0)) == 5 })
	want := []string{"snapshot a/x uid-1 101", "snapshot a/y uid-2 102", "synced 102", "modified a/x uid-1 103<101 replay", "gap (102,103] expired known"}
	r.wantEvents(0, want...)
}

// TestQuietWatchWithAnExpiredList: a quiet watch without bookmarks is compared with lists, of which the first takes too
// long. That says nothing about the history of the watch: checkpoints continue.
func TestQuietWatchWithAnExpiredList(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := liveHasty(t, api, things())
	api.do(func() {
		api.mute = true
		api.rev += 50 // writes to other resources
	})
	lists := api.refuseTimes(1, comparison, refusal(410, "Expired", "The provided continue parameter is too old"))
	r.eventually("a checkpoint behind the list", func() bool {
		return strings.Contains(string(r.log.marksNow()["example.com/things"]), `"rv":151,`)
	})
	if lists.Load() == 0 {
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
	api := newFakeAPI(t, "a/e1", "a/e2", "a/e3", "a/e4", "a/e5")
	r := live(t, api, things())
	api.expire("a", "e1", "e2")
	r.eventually("two ends", func() bool { return r.manager.Targets()[0].Objects == 3 })
	api.do(func() { api.breakAfter = 2 }) // cut among them
	api.expire("a", "e3", "e4", "e5")
	r.eventually("all ends", func() bool { return r.manager.Targets()[0].Objects == 0 })
	api.put("a", "e1", "")
	r.caughtUp()
	checkStream(t, r.log.all(), api)
}

// TestFirstListBreaksOff: the server refuses the continue token of the first list, once or for good, while an object
// changes that was announced already. The list goes on where it was, or begins again with a gap.
func TestFirstListBreaksOff(t *testing.T) {
	for name, c := range map[string]struct {
		times  int64
		answer func(w http.ResponseWriter)
		gaps   int
	}{
		"and is continued":               {1, refusal(503, "ServiceUnavailable", "later"), 0},
		"and cannot be continued":        {1, refusal(410, "Expired", "broken"), 1},
		"at one of several servers":      {1, refusal(400, "BadRequest", "continue key is not valid"), 0},
		"and the token is never allowed": {forEver, refusal(400, "BadRequest", "continue key is not valid"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.putMany(600, "") // 101 to 700
			api.refuseTimes(c.times, func(r *http.Request) bool {
				return strings.HasPrefix(r.URL.Query().Get("continue"), "700-")
			}, func(w http.ResponseWriter) {
				api.putTimes(3, "a", "x1", "") // announced already
				c.answer(w)
			})
			r := live(t, api, things())
			checkStream(t, r.log.all(), api)
			if got := count(r.log.all(), event.Gap); got != c.gaps {
				t.Errorf("%d gaps, want %d", got, c.gaps)
			}
		})
	}
}

func TestWatchThatEndsSoonIsNotOpenedAtOnce(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	live(t, api, things())
	const enough = 30
	watches := 0
	began := time.Now()
	done := make(chan time.Duration, 1)
	api.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		if watches++; watches == enough {
			done <- time.Since(began)
		}
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Thing","apiVersion":"example.com/v1","metadata":{"resourceVersion":"101"}}}`)
		return true
	})
	api.cut()
	if took := <-done; took < (enough-1)*5*time.Millisecond {
		t.Errorf("%d watches in %v, want a pause of 5 ms before each", enough, took)
	}
}

func TestThrottlingShowsAtOnce(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	api.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", "1")
		writeStatus(w, 429, "TooManyRequests", "storage is (re)initializing")
		return true
	})
	api.cut()
	r.eventually("shown", func() bool {
		s := r.manager.Targets()[0]
		return s.State == dynwatch.Stale && strings.Contains(s.Reason, "initializing")
	})
	api.admit()
	r.caughtUp()
}

// TestMalformedObject: an object that cannot be read is rejected, and the others flow. Under a selector, a DELETED
// frame of one may say that it has left the selection.
func TestMalformedObject(t *testing.T) {
	for name, c := range map[string]struct {
		wanted   dynwatch.Resource
		broken   []string
		write    func(api *fakeAPI)
		want     []string
		rejected []string
	}{
		"state": {
			things(),
			[]string{`"rev":103`},
			func(api *fakeAPI) { api.put("a", "bad", ""); api.put("a", "good", "") },
			[]string{"modified a/good uid-2 104<102"},
			[]string{"bad 103"},
		},
		"state of an object that has left": {
			selectingOn(),
			[]string{`"on":"no"`},
			func(api *fakeAPI) { api.put("a", "bad", "no"); api.put("a", "good", "yes"); api.put("a", "bad", "yes") },
			[]string{"left a/bad uid-1 103<101", "modified a/good uid-2 104<102", "entered a/bad uid-1 105<103"},
			[]string{"bad 103"},
		},
		"DELETED frames": {
			selectingOn(),
			[]string{`"103","labels":{"on":"yes"`, `"104"`},
			func(api *fakeAPI) { api.put("a", "bad", "no"); api.del("a", "good"); api.put("a", "bad", "yes") },
			[]string{"left a/bad uid-1 103<101", "deleted a/good uid-2 104<102", "entered a/bad uid-1 105<103"},
			[]string{"bad 103", "good 104"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/bad yes", "a/good yes")
			r, n := liveFrom(t, api, c.wanted)
			api.unbalanced(c.broken...)
			c.write(api)
			r.caughtUp()
			r.wantEvents(n, c.want...)
			var rejected []string
			for _, one := range r.log.rejected {
				rejected = append(rejected, fmt.Sprint(one.Name, " ", one.ResourceVersion))
			}
			same(t, c.rejected, rejected)
		})
	}
}

// Of objects whose beginning no watch brought, one leaves the selector and one is deleted: what was never announced
// does not leave.
func TestWhatWasNeverAnnouncedDoesNotLeave(t *testing.T) {
	api := newFakeAPI(t)
	api.drop(`"ADDED"`)
	r, n := liveFrom(t, api, selectingOn())
	api.put("a", "leaves", "yes") // 101
	api.put("a", "ends", "yes")   // 102
	api.put("a", "leaves", "no")  // 103
	api.del("a", "ends")          // 104
	r.until(n, event.Deleted)
	r.wantEvents(n, "deleted a/ends uid-2 104")
}

// TestLateFramesUnderASelectorDeleteOnce: etcd has compacted what tells a deletion from leaving, so the present
// tells, as a replay. A gap follows only if that was wrong, and it is no rollback.
func TestLateFramesUnderASelectorDeleteOnce(t *testing.T) {
	for name, c := range map[string]struct {
		write func(api *fakeAPI)
		later func(api *fakeAPI) // what etcd remembers
		want  []string
	}{
		"left, came back, deleted": {
			func(api *fakeAPI) { api.put("a", "x", "no"); api.put("a", "x", "yes"); api.del("a", "x") }, nil,
			[]string{"deleted a/x uid-1 102<101 replay", "gap (101,105] expired state"},
		},
		"left, came back, and is deleted later": {
			func(api *fakeAPI) { api.put("a", "x", "no"); api.put("a", "x", "yes") },
			func(api *fakeAPI) { api.del("a", "x") },
			[]string{"deleted a/x uid-1 102<101 replay", "gap (101,104] expired state"},
		},
		"left, and came back": {
			func(api *fakeAPI) { api.put("a", "x", "no"); api.put("a", "x", "yes") }, nil,
			[]string{"left a/x uid-1 102<101 replay", "entered a/x uid-1 103<102 replay"},
		},
		"left": {
			func(api *fakeAPI) { api.put("a", "x", "no") }, nil,
			[]string{"left a/x uid-1 102<101 replay"},
		},
		"deleted": {
			func(api *fakeAPI) { api.del("a", "x") }, nil,
			[]string{"deleted a/x uid-1 102<101 replay"},
		},
		"deleted, and created again": {
			func(api *fakeAPI) { api.del("a", "x"); api.put("a", "x", "yes") }, nil,
			[]string{"deleted a/x uid-1 102<101 replay", "added a/x uid-2 103 replay"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x yes")
			r, n := liveFrom(t, api, selectingOn())
			api.do(func() { api.mute = true })
			c.write(api)
			if c.later == nil {
				api.put("a", "z", "no")
			}
			api.compact() // the watch cache still has it all
			if c.later != nil {
				c.later(api)
			}
			api.do(func() { api.mute = false })
			r.caughtUp()
			r.eventually("events", func() bool { return len(r.log.all()) >= n+len(c.want) })
			r.wantEvents(n, c.want...)
			r.wantEpoch(0)
		})
	}
}

func TestFullLogHoldsTheWatchBack(t *testing.T) {
	api := newFakeAPI(t)
	r := live(t, api, things())
	release := r.log.hold()
	api.put("a", "x", "")
	r.eventually("blocked", func() bool { return !r.manager.Targets()[0].BlockedSince.IsZero() })
	api.putTimes(50, "a", "x", "")
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
