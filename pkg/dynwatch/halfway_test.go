package dynwatch_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

// stay is a time in which a namespace matched: from the revision at which it came to match, to the
// one at which it no longer did.
type stay struct{ from, to uint64 }

func (s stay) has(rv uint64) bool { return s.from <= rv && rv < s.to }

func staysOf(changes []change, namespace string) (stays []stay) {
	open := false
	for _, c := range changes {
		if !c.isNamespace() || c.name != namespace {
			continue
		}
		switch matches := c.label == "yes" && !c.deleted; {
		case matches && !open:
			stays = append(stays, stay{c.rev, math.MaxUint64})
		case !matches && open:
			stays[len(stays)-1].to = c.rev
		}
		open = len(stays) > 0 && stays[len(stays)-1].to == math.MaxUint64
	}
	return stays
}

// noticed reports whether events say that a namespace matched then.
func (s stay) noticed(events []event.Event, namespace string) bool {
	return slices.ContainsFunc(events, func(e event.Event) bool {
		switch cause := form.SelectionCause(e.ID); {
		case e.Op.Control() || e.Namespace != namespace:
			return false
		case e.Op == event.Left:
			return cause == s.to
		case e.Op == event.Entered:
			return s.has(cause)
		default:
			return e.Op == event.Added && s.has(e.ResourceVersion)
		}
	})
}

// incomplete returns the states of objects in a namespace that are neither events nor in a gap, while
// others of the same time are: a consumer must have all of a time in which the namespace matched, or
// nothing.
func incomplete(events []event.Event, api *fakeAPI, namespace string) (faults []string) {
	delivered := make(map[uint64]bool)
	var gaps []event.GapInfo
	for _, e := range events {
		if e.Op == event.Gap {
			gaps = append(gaps, *e.Gap)
		} else if !e.Op.Control() && !e.Op.Ends() {
			delivered[e.ResourceVersion] = true
		}
	}
	changes := api.changes()
	for _, s := range staysOf(changes, namespace) {
		if !s.noticed(events, namespace) {
			continue
		}
		for i, c := range changes {
			since, until := max(s.from, c.rev), uint64(math.MaxUint64)
			if later := slices.IndexFunc(changes[i+1:], func(o change) bool { return o.key() == c.key() }); later >= 0 {
				until = changes[i+1+later].rev
			}
			missing := c.ns == namespace && !c.deleted && !delivered[c.rev] && s.has(since) && since < until
			if missing && !slices.ContainsFunc(gaps, func(g event.GapInfo) bool { return g.From < since && since <= g.To }) {
				faults = append(faults, fmt.Sprintf("%s at %d, since %d", c.key(), c.rev, since))
			}
		}
	}
	return faults
}

func relabel(label string) func(*fakeAPI) {
	return func(api *fakeAPI) { api.put("", "team-a", label) }
}

func emptied(api *fakeAPI) {
	for _, c := range api.state() {
		if c.ns == "team-a" {
			api.del("team-a", c.name)
		}
	}
	api.del("", "team-a")
}

// TestNamespaceLeavesAsItIsLookedAt: after a kill in the middle of an arrival the namespace still
// matches as the target begins, and no longer as the target looks at it again.
func TestNamespaceLeavesAsItIsLookedAt(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one", "team-a/two")
	r := live(t, api, labelled())
	room := 2
	r.log.set(func() { r.log.room = &room })
	api.put("", "team-a", "yes")
	r.untilKilled()
	r.stop(true)
	api.before(isWatch, func(_ *http.Request, n int64) {
		if n == 1 {
			api.put("", "team-a", "no")
			<-time.After(200 * time.Millisecond) // the watch of the Namespaces is faster
		}
	})
	r.log.set(func() { r.log.room = nil })
	r.begin(labelled())
	r.within(10*time.Second, "what entered has left", func() bool {
		return count(r.log.all(), event.Left) > 0 && len(wrong(r.log.all(), api, false)) == 0
	})
}

// TestNamespaceLeavesBeforeAllHasEntered: a namespace matches, and what was filtered out until informd
// saw that cannot be read from etcd. When it can, the namespace does not match any more.
func TestNamespaceLeavesBeforeAllHasEntered(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one")
	r := live(t, api, labelled())
	api.do(func() { api.slow = ofNamespaces })
	api.put("", "team-a", "yes")
	api.put("team-a", "one", "")
	r.passed()
	api.do(func() { api.slow = nil })
	api.keepRefusing(func(r *http.Request) bool {
		return byName(r) && strings.Contains(r.URL.RawQuery, "one")
	}, answers()["500"])
	r.until(0, event.Entered)
	api.put("", "team-a", "no")
	<-time.After(100 * time.Millisecond) // a look at the namespace
	api.admit()
	r.nothingLost()
}

// TestRestartWhileANamespaceLeaves: all objects of a namespace have left, but the watch has not come past
// that. A restart emits nothing of it but a gap.
func TestRestartWhileANamespaceLeaves(t *testing.T) {
	for name, leave := range map[string]func(*fakeAPI){"another label": relabel("no"), "deleted": emptied} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a yes", "team-a/one")
			r := live(t, api, labelled())
			if name == "deleted" {
				api.del("team-a", "one")
				r.caughtUp()
			}
			api.do(func() { api.slow = notOfNamespaces })
			leave(api)
			r.eventually("ended", func() bool { return len(wrong(r.log.all(), api, false)) == 0 })
			n := len(r.log.all())
			r.stop(true)
			api.do(func() { api.slow = nil })
			api.put("", "team-b", "yes")
			r.goLive(labelled())
			if got := r.since(n); len(thingLines(r.log.all()[n:])) > 0 || len(got) > 1 {
				t.Errorf("events: %q", got)
			}
		})
	}
}

// refusePagesOf has lists of the things in a namespace have one object per page, and refuses all pages but the first one.
func (f *fakeAPI) refusePagesOf(namespace string) {
	f.do(func() { f.page = 1 })
	f.keepRefusing(func(r *http.Request) bool {
		return ofThingsIn(namespace)(r) && r.URL.Query().Get("continue") != ""
	}, refusal(403, "Forbidden", "no more pages"))
}

// admitPages ends that.
func (f *fakeAPI) admitPages() { f.do(func() { f.page, f.refuse = 0, nil }) }

// nothingLost waits until the stream has what matches, and holds it to the times in which team-a matched.
func (r *rig) nothingLost() {
	r.t.Helper()
	r.eventually("what is in the stream is what matches", func() bool { return len(wrong(r.log.all(), r.api, false)) == 0 })
	r.caughtUp()
	checkLegal(r.t, r.log.all())
	faults := incomplete(r.log.all(), r.api, "team-a")
	for end := time.Now().Add(5 * time.Second); len(faults) > 0 && time.Now().Before(end); { // a gap follows what has left
		<-time.After(10 * time.Millisecond)
		faults = incomplete(r.log.all(), r.api, "team-a")
	}
	if len(faults) > 0 {
		r.t.Errorf("neither events nor in a gap:\n%s\nevents:\n%s", strings.Join(faults, "\n"), strings.Join(lines(r.log.all()), "\n"))
	}
}

// TestHistoryIsLostAfterAPartHasEntered: frames of a namespace were filtered out since it matched, and the list that it begins
// with fails in the middle. History is lost before the next attempt, and the namespace does not match any more.
func TestHistoryIsLostAfterAPartHasEntered(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one", "team-a/two") // 103
	r := live(t, api, labelled())
	api.do(func() { api.slow = ofNamespaces })
	api.put("", "team-a", "yes")
	api.put("team-a", "three", "")
	api.del("team-a", "three") // 106
	r.passed()
	api.refusePagesOf("team-a")
	api.do(func() { api.slow = nil })
	r.until(0, event.Entered)
	var pages func(http.ResponseWriter, *http.Request) bool
	api.do(func() { pages = api.refuse })
	var seen atomic.Bool
	expired := 2
	api.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !isWatch(r) || expired == 0:
			return pages(w, r)
		case !seen.Load():
			writeStatus(w, 503, "ServiceUnavailable", "later")
		default:
			expired--
			writeStatus(w, 410, "Expired", "too old resource version: 106 (107)")
		}
		return true
	})
	api.cut()
	failures := r.manager.Targets()[0].Failures
	r.eventually("no watch", func() bool { return r.manager.Targets()[0].Failures > failures+1 })
	api.put("", "team-a", "no") // 107
	<-time.After(100 * time.Millisecond)
	seen.Store(true)
	r.until(0, event.Gap)
	api.admitPages()
	r.nothingLost()
}

// TestMatchesForAWhileAfterAPartHasLeft: the list of a namespace that no longer matches fails in the middle. The namespace
// matches for a while before the next attempt. The watch brings what is born then, and no change of what has left.
func TestMatchesForAWhileAfterAPartHasLeft(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/one", "team-a/two")
	r := live(t, api, labelled())
	api.refusePagesOf("team-a")
	api.put("", "team-a", "no")
	r.eventually("one leaves", func() bool { return count(r.log.all(), event.Left) == 1 })
	api.do(func() { api.slow = ofNamespaces })
	api.put("", "team-a", "yes") // 105
	api.put("team-a", "one", "")
	api.put("team-a", "born", "")
	api.put("", "team-a", "no") // 108
	api.do(func() { api.slow = nil })
	<-time.After(100 * time.Millisecond) // the Namespaces are read
	api.admitPages()
	r.nothingLost()
}

// TestMatchesForAWhileAsItIsListed: a namespace that no longer matches does again when it is listed, for a while. Its frames
// count until it has left, and not until the list.
func TestMatchesForAWhileAsItIsListed(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/one", "team-a/two") // 103
	r := live(t, api, labelled())
	api.do(func() { api.slow = notOfNamespaces })
	api.before(ofThingsIn("team-a"), func(_ *http.Request, n int64) {
		if n == 1 {
			api.put("", "team-a", "yes") // 106
			api.put("team-a", "born", "")
		}
	})
	api.put("team-a", "one", "")
	release := r.log.hold()
	api.put("", "team-a", "no") // 105
	r.eventually("two leaves", func() bool { return !r.manager.Targets()[0].BlockedSince.IsZero() })
	api.put("team-a", "one", "") // 108
	api.put("", "team-a", "no")
	<-time.After(100 * time.Millisecond) // the Namespaces are read
	release()
	api.do(func() { api.slow = nil })
	r.nothingLost()
}

// TestMatchesAgainAtTheComparison: the namespace matches again before the watch has come past the list that was compared. All
// of it enters, so that there is nothing to declare.
func TestMatchesAgainAtTheComparison(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/x")
	r := live(t, api, labelled())
	r.stop(false)
	n := len(r.log.all())
	api.put("", "team-a", "no")
	release := r.log.hold()
	r.begin(labelled())
	r.eventually("the comparison", func() bool { return !r.manager.Targets()[0].BlockedSince.IsZero() })
	api.put("", "team-a", "yes") // 104
	<-time.After(100 * time.Millisecond)
	release()
	api.put("team-a", "x", "")
	r.nothingLost()
	for _, e := range r.log.all()[n:] {
		if e.Op == event.Gap && e.Gap.From >= e.Gap.To {
			t.Errorf("an empty gap:\n%s", strings.Join(r.since(n), "\n"))
		}
	}
}

// TestStaleListOfANamespaceThatIsAhead: a namespace began with a list ahead of the position, and no longer matches. The list of
// an API server that is behind lacks an object of the first one.
func TestStaleListOfANamespaceThatIsAhead(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one") // 102
	r := live(t, api, labelled())
	api.do(func() { api.slow = anything })
	api.put("", "team-a", "yes")
	api.put("team-a", "two", "") // 104
	api.do(func() { api.compacted, api.slow = 103, notOfNamespaces })
	r.eventually("both enter", func() bool { return count(r.log.all(), event.Entered) == 2 })
	n := len(r.log.all())
	lists := api.staleListOf("team-a", 103)
	api.put("", "team-a", "no") // 105
	r.eventually("the stale list", func() bool { return lists.Load() > 0 })
	api.do(func() { api.slow = nil })
	r.eventually("both leave", func() bool { return len(wrong(r.log.all(), api, false)) == 0 })
	same(t, []string{"left team-a/one 102", "left team-a/two 104"}, sorted(thingLines(r.log.all()[n:])))
}

// staleListOf answers the next list of the things in a namespace with an empty one at a revision, and counts all of
// them.
func (f *fakeAPI) staleListOf(namespace string, rv int) *atomic.Int64 {
	pages := func(r *http.Request) bool { return ofThingsIn(namespace)(r) && isPage(r) }
	return f.refuseTimes(1, pages, func(w http.ResponseWriter) {
		fmt.Fprintf(w, `{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[]}`, rv)
	})
}

func ofThingsIn(namespace string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/namespaces/"+namespace+"/things") }
}

// leavesBehindTheWatch has a namespace leave a target with an object that is at the revision 103 if it was changed, and
// of which the watch has yet to bring another state.
func (r *rig) leavesBehindTheWatch() {
	r.t.Helper()
	r.goLive(labelled())
	r.settled()
	r.api.do(func() { r.api.slow = notOfNamespaces })
	r.api.put("team-a", "one", "")
	r.api.put("", "team-a", "no")
	r.eventually("a list of the namespace", func() bool {
		return r.api.requestsWith("/namespaces/team-a/things?limit=500") == 1
	})
	r.eventually("the checkpoint", func() bool {
		return !strings.Contains(string(r.log.marksNow()["example.com/things"]), `"namespaces":`)
	})
}

// TestRollbackWhileANamespaceLeaves: etcd is restored to a state in which the namespace matches, with an older state of an object
// that has yet to leave.
func TestRollbackWhileANamespaceLeaves(t *testing.T) {
	for name, head := range map[string]uint64{"to an older revision": 102, "with a raised revision": 110} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a yes", "team-a/one", "team-a/one") // 103
			r := newRig(t, api)
			r.leavesBehindTheWatch()
			api.rollBack(102)
			api.do(func() { api.slow, api.rev, api.oldest, api.compacted = nil, head, head, head })
			r.within(10*time.Second, "the restored state", func() bool { return len(wrong(r.log.all(), api, false)) == 0 })
			r.caughtUp()
			if s := r.manager.Targets()[0]; s.Epoch > 1 {
				t.Errorf("epoch %d after one rollback:\n%s", s.Epoch, strings.Join(lines(r.log.all()), "\n"))
			}
		})
	}
}

// TestResourceThatReturnsAfterANamespaceHasBegunToLeave: it was removed meanwhile, with all objects. Its list has nothing of the
// namespace, so that no gap is of it.
func TestResourceThatReturnsAfterANamespaceHasBegunToLeave(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/one") // 102
	r := newRig(t, api)
	r.withdrawn = 50 * time.Millisecond
	r.leavesBehindTheWatch()
	n := len(r.log.all())
	api.do(func() { api.served, api.slow = false, nil })
	api.cut()
	r.gone(n, 2)
	api.del("team-a", "one")
	n = len(r.log.all())
	api.do(func() { api.served = true })
	r.caughtUp()
	r.settled()
	r.wantEvents(n, "synced 105")
}
