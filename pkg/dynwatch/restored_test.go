package dynwatch_test

import (
	"net/http"
	"slices"
	"testing"
)

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
