package dynwatch_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// twoTargets watches two namespaces, each with a target of its own.
func twoTargets(t *testing.T) (*fakeAPI, *rig) {
	t.Helper()
	api := newFakeAPI(t, "a/one")
	api.put("b", "one", "") // 102
	r := start(t, api, inNamespaces("a", "b"))
	r.caughtUp()
	return api, r
}

func inNamespaceB(req *http.Request) bool { return strings.Contains(req.URL.Path, "/namespaces/b/") }

// target returns the status of the target of a namespace.
func (r *rig) target(namespace string) dynwatch.TargetStatus {
	all := r.manager.Targets()
	return all[slices.IndexFunc(all, func(s dynwatch.TargetStatus) bool { return s.Namespace == namespace })]
}

// gapsOf are the rollbacks that the events of a namespace's target declare.
func (r *rig) gapsOf(namespace string) (gaps int) {
	for _, e := range r.log.all() {
		if e.Op == event.Gap && strings.HasSuffix(e.Target, "@"+namespace) && e.Gap.Reason == "rollback" {
			gaps++
		}
	}
	return gaps
}

// A target that could not watch while etcd was restored finds the head of the store past its
// position. Another target has found the rollback.
func TestRollbackWhileATargetIsClosed(t *testing.T) {
	api, r := twoTargets(t)
	api.put("a", "one", "") // 103
	api.del("b", "one")     // 104
	r.caughtUp()
	watches := r.target("a").Watches
	var closed atomic.Bool
	closed.Store(true)
	api.keepRefusing(func(req *http.Request) bool {
		return closed.Load() && inNamespaceB(req)
	}, refusal(503, "ServiceUnavailable", "storage is (re)initializing"))
	api.cut()
	// Between its look at the revision and its watch, the other one would not see the rollback.
	r.eventually("one target is closed, the other has a new watch", func() bool {
		return r.target("b").State != dynwatch.Live && r.target("a").Watches > watches
	})
	api.rollBack(102)
	r.eventually("the other target finds the rollback", func() bool { return r.gapsOf("a") == 1 })
	api.put("b", "one", "") // of an object whose deletion was announced
	api.putTimes(5, "a", "one", "")
	closed.Store(false)
	r.eventually("the closed target reconciles", func() bool { return r.gapsOf("b") == 1 })
	api.put("b", "one", "")
	r.caughtUp()
	r.wantOneRollback()
	events := slices.DeleteFunc(r.log.all(), func(e event.Event) bool { return !strings.HasSuffix(e.Target, "@b") })
	deleted := slices.IndexFunc(events, func(e event.Event) bool { return e.Op == event.Deleted })
	for _, e := range events[deleted+1:] {
		if e.Epoch != 1 {
			t.Errorf("%s %s of the old history after the rollback", e.Op, e.ID)
		}
	}
}

// rolledBackInNamespaceA runs a process that watches the namespace a while etcd is restored to
// revision 102 and comes to 107.
func (r *rig) rolledBackInNamespaceA() {
	r.t.Helper()
	r.goLive(inNamespaces("a"))
	r.api.rollBack(102)
	r.eventually("the rollback", func() bool { return r.gapsOf("a") == 1 })
	r.api.putTimes(5, "a", "one", "")
	r.caughtUp()
	r.stop(false)
}

// TestRollbackBetweenTwoEdits: a target ends with an edit of the namespaces, and begins again with
// the next one. Meanwhile etcd was restored, and is past the checkpoint of the target.
func TestRollbackBetweenTwoEdits(t *testing.T) {
	api := newFakeAPI(t, "a/one")
	api.put("b", "two", "") // 102
	r := live(t, api, things())
	api.put("b", "two", "")
	api.put("b", "two", "") // 104
	r.caughtUp()
	r.stop(false)
	r.rolledBackInNamespaceA()
	n := len(r.log.all())
	r.goLive(things())
	if got := r.since(n); !slices.Contains(got, "snapshot b/two uid-2 102<104 replay") {
		t.Errorf("events %q, want the state of b/two that etcd was restored to", got)
	}
	r.wantEpoch(1)
}

// TestDeletionBeforeARollbackBetweenTwoEdits: the target was killed after a deletion that its
// checkpoint does not have. Etcd was restored to a revision with the object, whose changes are
// at revisions below that of the deletion.
func TestDeletionBeforeARollbackBetweenTwoEdits(t *testing.T) {
	api := newFakeAPI(t, "a/one")
	api.put("b", "two", "") // 102
	r := live(t, api, things())
	r.eventually("the checkpoint", func() bool { return len(r.log.marksNow()["example.com/things"]) > 0 })
	api.do(func() { api.rev = 109 })
	api.del("b", "two") // 110
	r.eventually("the deletion", func() bool { return slices.Contains(r.since(0), "deleted b/two uid-2 110<102") })
	r.stop(true)
	r.rolledBackInNamespaceA()
	r.goLive(things())
	api.put("b", "two", "") // 108
	r.eventually("the change", func() bool { return slices.Contains(r.since(0), "modified b/two uid-2 108<102") })
}

// A target whose open watch is behind is below the revision that etcd was restored to.
func TestRollbackAboveAPosition(t *testing.T) {
	api, r := aheadInNamespaceA(t)
	api.rollBack(104)
	r.eventually("both find the rollback", func() bool { return r.gapsOf("a") == 1 && r.gapsOf("b") == 1 })
	api.do(func() { api.slow = nil })
	r.caughtUp()
	r.wantOneRollback()
}

// wantOneRollback holds both targets to the first epoch after the beginning, and to one gap.
func (r *rig) wantOneRollback() {
	r.t.Helper()
	for _, namespace := range []string{"a", "b"} {
		if epoch, gaps := r.target(namespace).Epoch, r.gapsOf(namespace); epoch != 1 || gaps != 1 {
			r.t.Errorf("epoch %d and %d gaps in namespace %s after one rollback", epoch, gaps, namespace)
		}
	}
}

// TestRollbackAfterAnOldAnswer: when a target with an open watch learns of the rollback, its API
// server answers from before it. The target asks again before its next watch.
func TestRollbackAfterAnOldAnswer(t *testing.T) {
	api, r := aheadInNamespaceA(t)
	heads := api.refuseTimes(1, func(req *http.Request) bool {
		return inNamespaceB(req) && verbOf(req) == "list" && req.URL.Query().Get("limit") == "1"
	}, func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"50"},"items":[]}`)
	})
	api.rollBack(104)
	r.eventually("one target finds the rollback", func() bool { return r.gapsOf("a") == 1 })
	r.eventually("the other one has the old answer", func() bool { return heads.Load() > 0 })
	api.do(func() { api.slow = nil })
	api.cut()
	r.eventually("it finds the rollback before its next watch", func() bool { return r.gapsOf("b") == 1 })
}

// aheadInNamespaceA has a target at 107, and another one whose open watch is held back at 102.
func aheadInNamespaceA(t *testing.T) (*fakeAPI, *rig) {
	t.Helper()
	api, r := twoTargets(t)
	api.do(func() { api.slow = inNamespaceB })
	api.putTimes(5, "a", "one", "") // 103 to 107
	r.eventually("one target is ahead", func() bool { return r.target("a").ResourceVersion == 107 })
	return api, r
}

// All targets find the same rollback at about the same time: each reconciles once. A target that a config change starts
// again has considered it.
func TestRollbackFoundByAll(t *testing.T) {
	api, r := twoTargets(t)
	change := func() {
		api.put("a", "one", "")
		api.put("b", "one", "")
		r.caughtUp()
	}
	change()
	api.do(func() { api.mute = true })
	api.rollBack(102)
	api.do(func() { api.mute = false })
	r.eventually("both find the rollback", func() bool { return r.gapsOf("a") == 1 && r.gapsOf("b") == 1 })
	change()
	r.wantOneRollback()
	changed := inNamespaces("a", "b")
	changed.ResnapshotEvery = time.Hour
	must(t, r.manager.Apply([]dynwatch.Resource{changed}))
	change()
	r.wantOneRollback()
}

// A rollback of one etcd says nothing of a resource in another one.
func TestRollbackOfAnotherStore(t *testing.T) {
	api, other := newFakeAPI(t), newFakeAPI(t)
	api.put("a", "one", "")
	other.do(func() { other.rev += 1_000_000 })
	other.put("b", "one", "")
	api.intercept(func(w http.ResponseWriter, req *http.Request) bool {
		mine := inNamespaceB(req)
		if mine {
			other.serve(w, req)
		}
		return mine
	})
	r := start(t, api, inNamespaces("a", "b"))
	r.eventually("both live", func() bool {
		return r.target("a").State == dynwatch.Live && r.target("b").State == dynwatch.Live
	})
	backup := api.put("a", "one", "")
	last := api.put("a", "one", "")
	r.eventually("one target is ahead", func() bool { return r.target("a").ResourceVersion == last })
	api.rollBack(backup)
	r.eventually("one target finds the rollback", func() bool { return r.gapsOf("a") == 1 })
	other.cut()
	last = other.put("b", "one", "")
	r.eventually("the other target continues", func() bool { return r.target("b").ResourceVersion == last })
	if n := r.gapsOf("b"); n != 0 || r.target("b").Epoch != 0 {
		t.Errorf("%d rollbacks of another store, epoch %d", n, r.target("b").Epoch)
	}
}

// The store goes back to a lower revision below a watch that stays open and keeps sending
// bookmarks at its own. That is one rollback, and the objects are reconciled at once.
func TestRollbackUnderFrozenBookmarks(t *testing.T) {
	api := fourObjects(t)
	r := liveHasty(t, api, things())
	for range 6 {
		api.put("a", "changed", "yes") // 105 to 110
	}
	r.caughtUp()
	api.do(func() {
		api.starved, api.fresh = api.rev, api.opened
		api.history = slices.DeleteFunc(api.history, func(c change) bool { return c.rev > 104 })
		api.rev = 104
	})
	r.rolledBack()
}

// The store goes back while the first list is under way: what it began at is higher than
// what lists show.
func TestRollbackAmidTheFirstList(t *testing.T) {
	api := fourObjects(t)
	api.putTimes(20, "a", "same", "yes")
	api.keepRefusing(func(r *http.Request) bool {
		return ofThings(r) && verbOf(r) == "list" && r.URL.Query().Get("fieldSelector") == ""
	}, refusal(500, "InternalError", "etcdserver: request timed out"))
	r := start(t, api, things())
	r.eventually("the first list fails", func() bool { return r.manager.Targets()[0].Failures > 0 })
	api.rollBack(104)
	api.admit()
	r.caughtUp()
	r.consistent()
	r.wantEpoch(1)
}

// TestRollbackBelowAPinnedList: a reconcile lists at the revision that the API server has named,
// and fails. Etcd is restored below that revision meanwhile, so that no list at it can succeed.
func TestRollbackBelowAPinnedList(t *testing.T) {
	for name, to := range map[string]uint64{"at the position": 104, "below the position": 103, "above the position": 108} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			// By this error the list fails at once: the target requests the page again after most others.
			lists := api.refuseTimes(forEver, func(r *http.Request) bool {
				q := r.URL.Query()
				return !q.Has("watch") && q.Get("resourceVersion") == "112" && q.Get("fieldSelector") == ""
			}, refusal(401, "Unauthorized", "Unauthorized"))
			r.lose(func(api *fakeAPI) { api.putTimes(8, "a", "changed", "yes") }) // 105 to 112
			r.eventually("the list fails", func() bool { return lists.Load() > 0 })
			api.rollBack(to)
			api.admit()
			r.rolledBack()
		})
	}
}
