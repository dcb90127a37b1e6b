package dynwatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The list that a walk begins with lacks an object that etcd has. The walk asks etcd at the
// list's revision before it tells of an end: nothing is announced as deleted, whether the
// API server was convicted before or not.
func TestWalkWithAWrongList(t *testing.T) {
	for _, test := range []struct{ convicted, selects bool }{{}, {convicted: true}, {selects: true}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			api, convicted, wanted := fourObjects(t), test.convicted, things()
			if test.selects {
				wanted.LabelSelector = "on=yes"
			}
			r := start(t, api, wanted)
			r.caughtUp()
			if convicted {
				api.lie("a", "changed")
				api.put("a", "changed", "yes")
				api.do(func() { api.rev++ })
				r.caughtUp()
				if got := r.auditNow(); len(got.Mismatches) != 1 {
					t.Fatalf("%+v", got)
				}
				r.consistent()
			}
			api.do(func() {
				api.left = nil
				api.lists = func(state map[string]change, _ bool) { delete(state, "a/same") }
			})
			before := r.manager.Targets()[0].Mismatched
			n := r.lose(func(api *fakeAPI) {
				api.put("a", "recreated", "yes")
				api.put("a", "recreated", "yes")
			})
			r.eventually("the history", func() bool { return strings.Contains(strings.Join(r.since(n), "\n"), "a/recreated") })
			r.caughtUp()
			ended := func(line string) bool {
				return strings.HasPrefix(line, "deleted a/same") || strings.HasPrefix(line, "left a/same")
			}
			if told := r.since(n); slices.ContainsFunc(told, ended) {
				t.Errorf("a deletion that etcd does not have: %q", told)
			}
			r.consistent()
			s := r.manager.Targets()[0]
			if s.Mismatched == before || s.Epoch != 0 {
				t.Errorf("%d objects mismatched, %d before, in epoch %d", s.Mismatched, before, s.Epoch)
			}
		})
	}
}

// A list shows an object that was born and deleted in the range that was lost. Etcd does not
// have it: it is not announced, and the API server is convicted.
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
	if s := r.manager.Targets()[0]; s.Mismatched == 0 || s.Epoch != 0 {
		t.Errorf("%d objects mismatched in epoch %d", s.Mismatched, s.Epoch)
	}
}
