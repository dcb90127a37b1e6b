package dynwatch_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// refuseNamespaces cuts the watches and refuses that of the Namespaces a few times,
// with a status code; 410 is of a watch only, for a list is a new beginning.
func (f *fakeAPI) refuseNamespaces(code int, times int64) {
	reasons := map[int]string{403: "Forbidden", 410: "Expired", 503: "ServiceUnavailable"}
	f.refuseTimes(times, func(r *http.Request) bool {
		return ofNamespaces(r) && (code != 410 || verbOf(r) == "watch")
	}, refusal(code, reasons[code], "refused"))
	f.cut()
}

// passed waits until the target's cursor is at the fake's revision, whatever its state.
func (r *rig) passed() {
	r.t.Helper()
	r.eventually("passed", func() bool { return r.manager.Targets()[0].ResourceVersion == r.api.revisionNow() })
}

// settled waits until the checkpoint says that the log is in line with the Namespaces.
func (r *rig) settled() {
	r.t.Helper()
	r.eventually("the checkpoint", func() bool {
		return strings.Contains(string(r.log.marksNow()["example.com/things"]), `"namespaces":`)
	})
}

// A watch of the Namespaces that cannot be opened any more shows in every target that
// depends on it, until it can be.
func TestNamespacesThatAreNotFollowedShow(t *testing.T) {
	for name, code := range map[string]int{"forbidden": 403, "unavailable": 503} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a yes")
			r := live(t, api, labelled())
			announced := func(want, why string) {
				r.eventually(want+" is announced", func() bool {
					states := r.log.statesNow()
					if len(states) == 0 {
						return false
					}
					state, reason := states[len(states)-1].TargetState()
					return state == want && strings.HasPrefix(reason, why)
				})
			}
			announced("live", "")
			api.refuseNamespaces(code, forEver)
			const why = "namespaceSelector: namespaces are unreadable: "
			r.eventually("stale", func() bool {
				s := r.manager.Targets()[0]
				return s.State == dynwatch.Stale && strings.HasPrefix(s.Reason, why)
			})
			announced("stale", why)
			n := len(r.log.all())
			api.put("team-a", "one", "")
			r.passed()
			r.wantThings(n, "added team-a/one 102")
			api.admit()
			r.state(dynwatch.Live)
			announced("live", "")
			r.wantAudit(0)
		})
	}
}

// What is in a namespace that came to match while the Namespaces were not followed is
// told as far as that can be, and a gap names what cannot.
func TestTurnWhileNamespacesAreNotFollowed(t *testing.T) {
	one := func(api *fakeAPI) { api.put("team-a", "one", "") }
	again := func(api *fakeAPI) { api.put("", "team-a", "no"); api.put("", "team-a", "yes") }
	tests := map[string]struct {
		meanwhile []func(*fakeAPI)
		code      int // what the first watch that is not refused meets with
		want      []string
	}{
		"resumed": {
			meanwhile: []func(*fakeAPI){one, func(api *fakeAPI) {
				api.put("team-a", "two", "")
				api.del("team-a", "two")
				api.put("team-a", "three", "")
			}, one},
			want: []string{"entered team-a/one uid-2 108", "entered team-a/three uid-4 107", "gap (102,108] selection state"},
		},
		"resumed, and a name used again": {
			meanwhile: []func(*fakeAPI){func(api *fakeAPI) { api.del("team-a", "one") }, one},
			want:      []string{"entered team-a/one uid-3 105", "gap (102,105] selection state"},
		},
		"resumed, other labels since": {
			meanwhile: []func(*fakeAPI){one, func(api *fakeAPI) { api.put("", "team-b", "yes"); api.put("", "team-a", "yes") }, one},
			want:      []string{"entered team-a/one uid-2 107", "gap (102,107] selection state"},
		},
		"resumed, and nothing happened": {
			want: []string{"entered team-a/one uid-2 102"},
		},
		"resumed, and etcd has forgotten": {
			meanwhile: []func(*fakeAPI){one, one, (*fakeAPI).compact},
			want:      []string{"entered team-a/one uid-2 105", "gap (102,105] selection state"},
		},
		"begun anew": {
			meanwhile: []func(*fakeAPI){one, again, one},
			code:      410,
			want:      []string{"entered team-a/one uid-2 107", "gap (102,107] selection state"},
		},
		"begun anew, and nothing happened": {
			meanwhile: []func(*fakeAPI){again},
			code:      410,
			want:      []string{"entered team-a/one uid-2 102"},
		},
		"begun anew, and nothing but new objects": {
			meanwhile: []func(*fakeAPI){again, func(api *fakeAPI) { api.put("team-a", "two", "") }},
			code:      410,
			want:      []string{"entered team-a/one uid-2 102", "entered team-a/two uid-3 106", "gap (102,106] selection state"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a no", "team-a/one")
			r, n := liveFrom(t, api, labelled())
			api.refuseNamespaces(503, forEver)
			r.state(dynwatch.Stale)
			api.put("", "team-a", "yes")
			for _, change := range tt.meanwhile {
				change(api)
			}
			r.passed()
			if tt.code != 0 {
				api.refuseNamespaces(tt.code, 1)
			} else {
				api.admit()
			}
			r.eventually("all of it", func() bool { return len(r.since(n)) >= len(tt.want) })
			r.caughtUp()
			r.wantEvents(n, tt.want...)
			checkLegal(t, r.log.all())
			r.wantAudit(0)
		})
	}
}

// TestNamespacesFromAWrongList: each watch of the Namespaces begins with a list. One from a wrong watch cache, or an empty
// answer of a proxy, lacks a namespace that etcd has, or has older labels of it. Nothing leaves, and what has left
// does.
func TestNamespacesFromAWrongList(t *testing.T) {
	for name, wrong := range map[string]func(state map[string]change, old change){
		"lacks it":   func(state map[string]change, _ change) { delete(state, "/team-a") },
		"old labels": func(state map[string]change, old change) { state["/team-a"] = old },
		"empty": func(state map[string]change, _ change) {
			maps.DeleteFunc(state, func(_ string, c change) bool { return c.isNamespace() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a no")
			old := api.state()["/team-a"]
			for _, ns := range []string{"team-a", "team-b", "team-c"} {
				api.put("", ns, "yes")
				api.put(ns, "one", "")
			}
			r, n := liveFrom(t, api, labelled())
			api.do(func() { api.lists = func(state map[string]change, _ bool) { wrong(state, old) } })
			lists := api.requestsWith(namespacesPath + "?limit=500")
			api.refuseNamespaces(503, 2) // one of the two is of a list
			api.put("", "team-b", "no")
			api.del("", "team-c")
			r.eventually("two lists", func() bool { return api.requestsWith(namespacesPath+"?limit=500") >= lists+2 })
			want := []string{"left team-b/one", "left team-c/one"}
			r.eventually("both left", func() bool { return count(r.log.all()[n:], event.Left) >= len(want) })
			api.put("team-a", "two", "")
			r.passed()
			r.eventually("a live event", func() bool { return count(r.log.all()[n:], event.Added) == 1 })
			if got := r.since(n); len(ends(got, "team-a/")) > 0 || count(r.log.all()[n:], event.Left) != len(want) {
				t.Errorf("events: %q", got)
			}
		})
	}
}

// A process that ends before it could find out that a namespace has turned leaves that
// to the next one, which does not know what was left out.
func TestTurnBeforeARestartWhileNamespacesAreNotFollowed(t *testing.T) {
	tests := map[string]struct {
		before, after bool // the restart it turned
		want          []string
	}{
		"before": {true, false, []string{"entered team-a/one uid-2 104 replay", "gap (102,104] selection state"}},
		"after":  {false, true, []string{"entered team-a/one uid-2 103 replay", "gap (102,104] selection state"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a no", "team-a/one")
			r, n := liveFrom(t, api, labelled())
			api.refuseNamespaces(503, forEver)
			r.state(dynwatch.Stale)
			if tt.before {
				api.put("", "team-a", "yes")
			}
			api.put("team-a", "one", "")
			r.passed()
			r.stop(false)
			if tt.after {
				api.put("", "team-a", "yes")
			}
			api.admit()
			r.begin(labelled())
			r.eventually("all of it", func() bool { return len(r.since(n)) >= len(tt.want) })
			r.caughtUp()
			r.wantEvents(n, tt.want...)
		})
	}
}

// listAheadOfTheWatch has a namespace begin with a list which is ahead of the watch, and returns how many events there
// were before.
func listAheadOfTheWatch(t *testing.T) (r *rig, n int) {
	t.Helper()
	api := newFakeAPI(t, "/team-a no", "team-a/one")
	r, n = liveFrom(t, api, labelled())
	api.do(func() { api.slow = anything })
	api.put("", "team-a", "yes")
	api.put("team-a", "two", "")
	api.put("team-a", "one", "")
	api.compact()
	api.do(func() { api.slow = notOfNamespaces })
	r.eventually("both", func() bool { return count(r.log.all()[n:], event.Entered) == 2 })
	return r, n
}

// TestStatesThatAListIsAheadOf: a gap declares the states between the two, and frames of them bring nothing.
func TestStatesThatAListIsAheadOf(t *testing.T) {
	r, n := listAheadOfTheWatch(t)
	r.api.do(func() { r.api.slow = nil })
	r.caughtUp()
	r.wantEvents(n, "entered team-a/one uid-2 105", "entered team-a/two uid-3 104", "gap (102,105] selection state")
}

// TestMatchesAgainWhileItLeaves: the watch is behind as a namespace no longer matches, and still is as it matches again. The
// list that it begins with is ahead of frames that counted until it had left.
func TestMatchesAgainWhileItLeaves(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes")
	api.put("team-a", "one", "") // 102
	r, n := liveFrom(t, api, labelled())
	api.do(func() { api.slow = notOfNamespaces })
	api.put("team-a", "two", "")
	api.del("team-a", "two")
	api.put("", "team-a", "no") // 105
	r.eventually("one leaves", func() bool { return count(r.log.all()[n:], event.Left) == 1 })
	api.compact()
	api.put("", "team-a", "yes") // 106
	api.compact()
	r.eventually("one enters", func() bool { return count(r.log.all()[n:], event.Entered) == 1 })
	api.do(func() { api.slow = nil })
	r.caughtUp()
	r.wantEvents(n, "left team-a/one uid-2 102<102", "entered team-a/one uid-2 102<102", "gap (102,106] selection state")
}

// TestRecoveryWhileANamespaceLeaves: history is lost while frames of a namespace count until it has left. The list that is
// compared does not show its objects, so that the frames behind that list are of objects that nobody knows.
func TestRecoveryWhileANamespaceLeaves(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes")
	api.put("team-a", "one", "") // 102
	r, n := liveFrom(t, api, labelled())
	api.do(func() { api.slow = notOfNamespaces })
	api.put("team-a", "two", "") // 103
	api.put("team-a", "two", "")
	api.put("", "team-a", "no") // 105
	r.eventually("one leaves", func() bool { return count(r.log.all()[n:], event.Left) == 1 })
	api.do(func() { api.slow, api.oldest = nil, 103 })
	api.cut()
	r.eventually("a gap", func() bool { return count(r.log.all()[n:], event.Gap) > 0 })
	r.caughtUp()
	r.wantEvents(n, "left team-a/one uid-2 102<102", "gap (102,105] expired state")
}

// TestDeletedBeforeTheNamespaceMatched: while informd is down, an object is deleted that was never announced, and its
// namespace matches. A list at the position shows the object, and the watch that it ends.
func TestDeletedBeforeTheNamespaceMatched(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one", "team-a/two")
	r := live(t, api, labelled())
	r.settled()
	r.stop(false)
	n := len(r.log.all())
	api.del("team-a", "two")
	api.put("", "team-a", "yes")
	r.goLive(labelled())
	r.eventually("both objects", func() bool { return len(thingLines(r.log.all()[n:])) == 3 })
	want := []string{"deleted team-a/two 104", "entered team-a/one 102", "entered team-a/two 103"}
	same(t, want, sorted(thingLines(r.log.all()[n:])))
	r.consistent()
}

// TestDeletionFilteredAtThePosition: a namespace matches at a revision before a deletion that was filtered out, and that the
// target is at. Nothing is said of that object, and a gap declares what was filtered out.
func TestDeletionFilteredAtThePosition(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one", "team-a/two")
	r, n := liveFrom(t, api, labelled())
	api.do(func() { api.slow = ofNamespaces })
	api.put("", "team-a", "yes")
	api.del("team-a", "two")
	r.passed()
	api.do(func() { api.slow = nil })
	r.eventually("the gap", func() bool { return len(r.since(n)) >= 2 })
	r.caughtUp()
	watches := r.manager.Targets()[0].Watches
	api.cut() // the next watch begins before the deletion
	r.eventually("another watch", func() bool { return r.manager.Targets()[0].Watches > watches })
	api.put("team-a", "three", "")
	r.caughtUp()
	r.wantEvents(n, "entered team-a/one uid-2 102", "gap (103,105] selection state", "added team-a/three uid-4 106")
}

// TestNamespaceMatchesAfterARollback: etcd is restored to an older state while the Namespaces cannot be
// read. A namespace matches after that, at a revision below the last one that was read.
func TestNamespaceMatchesAfterARollback(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "/team-b no", "team-a/x")
	api.put("team-b", "x", "")          // 104
	r := startHasty(t, api, labelled()) // a watch that opens during the restore is silent
	r.caughtUp()
	api.do(func() { api.rev = 110 })
	r.eventually("the checkpoint", func() bool {
		return strings.Contains(string(r.log.marksNow()["example.com/things"]), `"namespacesAt":110`)
	})
	api.refuseNamespaces(503, forEver)
	r.state(dynwatch.Stale)
	api.rollBack(104)
	r.untilEpoch(1)
	api.put("", "team-b", "yes") // 105
	n := len(r.log.all())
	for range 3 {
		api.put("team-b", "x", "") // 106 to 108
	}
	r.passed()
	failures := api.requestsWith(namespacesPath + "?")
	r.eventually("the target has seen another failure", func() bool { return api.requestsWith(namespacesPath+"?") > failures+1 })
	api.admit()
	r.eventually("it enters", func() bool {
		return slices.ContainsFunc(r.since(n), func(s string) bool { return strings.Contains(s, "team-b/x") })
	})
	r.caughtUp()
	r.eventually("a gap of the revisions that were filtered out", func() bool {
		return slices.ContainsFunc(r.log.all(), func(e event.Event) bool {
			return e.Op == event.Gap && e.Gap.Reason == "selection" && e.Gap.From <= 105 && e.Gap.To == 108
		})
	})
	checkLegal(t, slices.DeleteFunc(r.log.all(), func(e event.Event) bool { return e.Namespace == "team-a" }))
}

// TestCauseOfWhatAListLeavesOut: behind a void checkpoint, a list finds an object of a namespace that
// no longer matches. It left with a revision at which that was so, although the namespace matches
// again when the list is read.
func TestCauseOfWhatAListLeavesOut(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/x 1")
	r, n := liveFrom(t, api, labelled())
	r.stop(false)
	r.log.set(func() { r.log.void = true })
	api.put("", "team-a", "no") // 103
	api.before(func(r *http.Request) bool {
		return ofThings(r) && verbOf(r) == "list" && r.URL.Query().Get("limit") != "1"
	}, func(_ *http.Request, n int64) {
		if n == 1 {
			api.put("", "team-a", "yes") // 104
		}
	})
	r.begin(labelled())
	r.until(n, event.Entered)
	same(t, []uint64{103}, causes(r.log.all()[n:], event.Left))
}

// causes are the revisions at which namespaces changed, of the events with an operation.
func causes(events []event.Event, op event.Op) (all []uint64) {
	for _, e := range events {
		if e.Op == op {
			all = append(all, form.SelectionCause(e.ID))
		}
	}
	return all
}

// TestMatchesForAWhileDuringAComparison: a namespace that the log has objects of does not match any more at the start. It
// matches for a while as the comparison is written. Of that while the watch brings what is born, and not what was there.
func TestMatchesForAWhileDuringAComparison(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "/team-b yes")
	api.put("team-a", "x", "1") // 103
	r, n := liveFrom(t, api, labelled())
	r.stop(false)
	api.put("", "team-a", "no") // 104
	api.put("team-a", "there", "")
	api.put("team-b", "y", "") // 106
	api.compact()              // the list that is compared is of now
	release := r.log.hold()
	r.begin(labelled())
	r.eventually("the comparison", func() bool { return !r.manager.Targets()[0].BlockedSince.IsZero() })
	api.put("", "team-a", "yes")   // 107
	api.put("team-a", "there", "") // 108
	api.put("team-a", "born", "")
	api.put("", "team-a", "no")          // 110
	<-time.After(100 * time.Millisecond) // if the Namespaces are read later than that, all of it is announced
	release()
	r.eventually("an end", func() bool { return count(r.log.all()[n:], event.Left) > 0 })
	r.caughtUp()
	if !slices.ContainsFunc(r.log.all()[n:], func(e event.Event) bool {
		return e.ResourceVersion == 108 || e.Op == event.Gap && e.Gap.From < 108 && e.Gap.To >= 108
	}) {
		t.Errorf("a state is neither announced nor in a gap:\n%s", strings.Join(r.since(n), "\n"))
	}
}

// TestCauseOfAReturnThatOnlyAListShows: a namespace matches again while informd is down, and etcd has
// forgotten when. An object that had left enters with a revision at which the namespace matches.
func TestCauseOfAReturnThatOnlyAListShows(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/x 1")
	r := live(t, api, labelled())
	api.put("", "team-a", "no") // 103
	r.until(0, event.Left)
	r.stop(false)
	api.put("", "team-a", "yes") // 104
	api.forget()
	api.compact()
	r.begin(labelled())
	r.until(0, event.Entered)
	same(t, []uint64{104}, causes(r.log.all(), event.Entered))
}

// TestStaleListOfANamespaceThatNoLongerMatches: the API server answers with a list from before the position. What it lacks is
// not deleted.
func TestStaleListOfANamespaceThatNoLongerMatches(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/one")
	r, n := liveFrom(t, api, labelled())
	lists := api.staleListOf("team-a", 101)
	api.put("", "team-a", "no")
	r.eventually("an end", func() bool { return len(r.log.all()) > n })
	r.caughtUp()
	r.wantEvents(n, "left team-a/one uid-2 102<102")
	if lists.Load() == 0 {
		t.Error("no list was stale")
	}
}
