package dynwatch_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// lie has the watch cache of the fake leave out the next event: no watch brings it, and
// lists, also those at exact revisions, show the state before. Etcd, which serves lists of
// one name, has it.
func (f *fakeAPI) lie(ns, name string) {
	f.do(func() {
		before, was := f.stateAt(f.rev)[ns+"/"+name]
		from := f.rev
		f.left = func(frame string) bool { return strings.Contains(frame, `"name":"`+name+`"`) }
		f.lists = func(state map[string]change, _ bool) {
			switch now, is := state[ns+"/"+name]; {
			case was && (!is || now.rev > from):
				state[ns+"/"+name] = before
			case !was:
				delete(state, ns+"/"+name)
			}
		}
	})
}

// hide has the lists of the fake leave out an object.
func (f *fakeAPI) hide(key string) {
	f.do(func() { f.lists = func(state map[string]change, _ bool) { delete(state, key) } })
}

// ends are the lines of events that end an object.
func ends(lines []string, object string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !strings.HasPrefix(line, "deleted "+object) && !strings.HasPrefix(line, "left "+object)
	})
}

// TestWrongListDeletesNothing: a list lacks an object that etcd has. The target does not use the
// list, says so, and goes on once the lists are right.
func TestWrongListDeletesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		requests int // that the walk may make
		selector string
		lose     func(api *fakeAPI)
	}{
		"walk":         {requests: 100},
		"no walk":      {},
		"a selector":   {selector: "on=yes"},
		"list of now":  {lose: func(api *fakeAPI) { api.do(func() { api.nameless = true }) }},
		"compacted":    {lose: (*fakeAPI).compact},
		"other events": {lose: func(api *fakeAPI) { api.del("a", "deleted") }},
	} {
		t.Run(name, func(t *testing.T) {
			api, wanted := fourObjects(t), things()
			wanted.LabelSelector = c.selector
			r := startLimited(t, api, func(l *dynwatch.Limits) { l.Requests = c.requests }, wanted)
			r.caughtUp()
			api.hide("a/same")
			n := r.lose(func(api *fakeAPI) {
				api.put("a", "recreated", "yes")
				api.put("a", "recreated", "yes")
				if c.lose != nil {
					c.lose(api)
				}
			})
			r.eventually("the reason", func() bool { return errors.Is(r.manager.Targets()[0].Err, listwatch.ErrWrongList) })
			if s := r.manager.Targets()[0]; s.Objects < 4 || s.Epoch != 0 {
				t.Errorf("%d objects in epoch %d", s.Objects, s.Epoch)
			}
			api.do(func() { api.lists = nil })
			r.caughtUp()
			r.consistent()
			if got := ends(r.since(n), "a/same"); len(got) > 0 {
				t.Errorf("a deletion that etcd does not have: %q", got)
			}
		})
	}
}

// TestWrongListOfOneServer: the API server behind the shared connection has a wrong watch cache. The
// target lists over another connection.
func TestWrongListOfOneServer(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.before(anything, func(r *http.Request, _ int64) {
		api.do(func() { api.lists = nil })
		if !r.Close {
			api.hide("a/same")
		}
	})
	n := r.lose(func(api *fakeAPI) {
		api.del("a", "deleted")
		api.put("a", "recreated", "yes")
	})
	r.eventually("the deletion", func() bool { return len(ends(r.since(n), "a/deleted")) == 1 })
	r.caughtUp()
	r.consistent()
	if got := ends(r.since(n), "a/same"); len(got) > 0 {
		t.Errorf("a deletion that etcd does not have: %q", got)
	}
}

// TestHiddenEvent: a watch cache that hides an event from watches and lists has nothing deleted, and
// proves no rollback. Once it shows the truth, an audit brings it.
func TestHiddenEvent(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		write  func(api *fakeAPI)
		want   string
	}{
		"a change": {
			"changed", func(api *fakeAPI) { api.put("a", "changed", "yes") }, "modified a/changed uid-1 105<101 replay",
		},
		"a deletion": {
			"deleted", func(api *fakeAPI) { api.del("a", "deleted") }, "deleted a/deleted uid-2 109<102 replay",
		},
		"a birth": {
			"born", func(api *fakeAPI) { api.put("a", "born", "yes") }, "added a/born uid-5 105 replay",
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r, n := liveFrom(t, api, things())
			api.lie("a", c.object)
			c.write(api)                // 105
			api.put("a", "same", "yes") // 106
			r.caughtUp()
			r.wantAudit(0)
			r.lose(func(api *fakeAPI) {
				api.put("a", "recreated", "yes")
				api.put("a", "recreated", "yes") // 108
			})
			r.caughtUp()
			others := func(line string) bool { return !strings.Contains(line, "a/"+c.object) }
			if got := slices.DeleteFunc(r.since(n), others); len(got) > 0 {
				t.Errorf("events of what is hidden: %q", got)
			}
			api.do(func() { api.left, api.lists = nil, nil })
			api.put("a", "same", "yes") // 109
			r.caughtUp()
			r.wantAudit(1)
			r.consistent()
			same(t, []string{c.want}, slices.DeleteFunc(r.since(n), others))
			r.wantEpoch(0)
		})
	}
}

// TestGhostOfAWatchCacheIsNoRollback: a cache that shows a deleted object again and again proves no
// restore.
func TestGhostOfAWatchCacheIsNoRollback(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprintf("compacted: %t", compacted), func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			ghost := api.state()["a/deleted"]
			r.stop(false)
			api.del("a", "deleted")
			api.forget()
			r.goLive(things())
			api.do(func() {
				api.lists = func(state map[string]change, _ bool) { state["a/deleted"] = ghost }
			})
			n := r.lose(func(api *fakeAPI) {
				api.put("a", "same", "yes")
				api.put("a", "same", "yes")
				if compacted {
					api.compact()
				}
			})
			r.gap(n)
			r.wantEpoch(0)
			r.consistent()
		})
	}
}

// TestGhostYoungerThanTheLoss: a list shows an object that was born and deleted in the range that
// was lost. Etcd does not have it: it is not announced.
func TestGhostYoungerThanTheLoss(t *testing.T) {
	api := fourObjects(t)
	r := start(t, api, things())
	n := r.lose(func(api *fakeAPI) {
		api.put("a", "ghost", "yes")
		ghost := api.state()["a/ghost"]
		api.del("a", "ghost")
		api.put("a", "same", "yes")
		api.do(func() {
			api.lists = func(state map[string]change, _ bool) { state["a/ghost"] = ghost }
		})
	})
	r.eventually("the history", func() bool { return strings.Contains(strings.Join(r.since(n), "\n"), "a/same") })
	r.caughtUp()
	r.consistent()
	r.wantEpoch(0)
}

// TestAuditListsAtAnExactRevision: an API server that has found its cache wrong serves exact lists
// from etcd.
func TestAuditListsAtAnExactRevision(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.drop(`"born"`)
	api.do(func() {
		api.lists = func(state map[string]change, exact bool) {
			if !exact {
				delete(state, "a/born")
			}
		}
	})
	api.put("a", "born", "yes")
	r.caughtUp()
	r.wantAudit(1)
	r.consistent()
}
