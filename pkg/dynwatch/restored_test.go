package dynwatch_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
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
	for range 20 {
		api.put("a", "same", "yes")
	}
	var failing atomic.Bool
	failing.Store(true)
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			lists := strings.HasSuffix(r.URL.Path, "/things") && q.Get("fieldSelector") == "" && q.Get("watch") == ""
			if lists && failing.Load() {
				writeStatus(w, 500, "InternalError", "etcdserver: request timed out")
				return true
			}
			return false
		}
	})
	r := start(t, api, things())
	r.eventually("the first list fails", func() bool { return r.manager.Targets()[0].Failures > 0 })
	api.rollBack(104)
	failing.Store(false)
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
			refused, repair := refuseListsAt(api, "112")
			r.lose(func(api *fakeAPI) {
				for range 8 {
					api.put("a", "changed", "yes") // 105 to 112
				}
			})
			r.eventually("the list fails", refused.Load)
			api.rollBack(to)
			repair()
			r.rolledBack()
		})
	}
}

// refuseListsAt refuses lists of all things at a revision until repair is called. The list of a
// target fails at once by this error: it requests the page again after most others.
func refuseListsAt(api *fakeAPI, rv string) (refused *atomic.Bool, repair func()) {
	refused = new(atomic.Bool)
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			if q.Has("watch") || q.Get("resourceVersion") != rv || q.Get("fieldSelector") != "" {
				return false
			}
			writeStatus(w, 401, "Unauthorized", "Unauthorized")
			refused.Store(true)
			return true
		}
	})
	return refused, func() { api.do(func() { api.refuse = nil }) }
}
