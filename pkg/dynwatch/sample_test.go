package dynwatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/informd/informd/pkg/dynwatch"
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

// An API server whose watch cache has lost an event is convicted by the next audit, and
// the stream has the true state.
func TestWrongWatchCache(t *testing.T) {
	server := cmpopts.IgnoreFields(dynwatch.Mismatch{}, "Server", "At")
	for name, c := range map[string]struct {
		object string
		write  func(api *fakeAPI)
		want   dynwatch.Mismatch
		events []string
	}{
		"a change": {
			"changed", func(api *fakeAPI) { api.put("a", "changed", "yes") },
			dynwatch.Mismatch{Namespace: "a", Name: "changed", Revision: 107, UID: "uid-1", ResourceVersion: 106, ListedUID: "uid-1", Listed: 101},
			[]string{"modified a/changed uid-1 106<101 replay"},
		},
		"a deletion": {
			"deleted", func(api *fakeAPI) { api.del("a", "deleted") },
			dynwatch.Mismatch{Namespace: "a", Name: "deleted", Revision: 107, ListedUID: "uid-2", Listed: 102},
			[]string{"deleted a/deleted uid-2 107<102 replay"},
		},
		"an object under a name that was used": {
			"once", func(api *fakeAPI) { api.put("a", "once", "yes") },
			dynwatch.Mismatch{Namespace: "a", Name: "once", Revision: 109, UID: "uid-7", ResourceVersion: 108},
			[]string{"added a/once uid-7 108 replay"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := start(t, api, things())
			r.caughtUp()
			api.put("a", "other", "yes") // 105
			if c.object == "once" {
				api.put("a", "once", "yes")
				r.caughtUp()
				api.del("a", "once")
			}
			r.caughtUp()
			n := len(r.log.all())
			api.lie("a", c.object)
			c.write(api)
			api.do(func() { api.rev++ }) // of another resource
			r.caughtUp()
			got := r.auditNow()
			if got.Err != nil || got.Divergences != 1 || len(got.Mismatches) != 1 {
				t.Fatalf("audit: %+v", got)
			}
			if diff := cmp.Diff(c.want, got.Mismatches[0], server); diff != "" {
				t.Error(diff)
			}
			if got.Mismatches[0].Server != api.server.URL {
				t.Errorf("server %q", got.Mismatches[0].Server)
			}
			r.consistent()
			lines := slices.DeleteFunc(r.since(n), func(line string) bool { return strings.HasPrefix(line, "gap") })
			if diff := cmp.Diff(c.events, lines); diff != "" {
				t.Error(diff)
			}
			s := r.manager.Targets()[0]
			if s.Mismatched != 1 || len(s.Mismatches) != 1 || s.State != dynwatch.Live {
				t.Errorf("status %+v", s)
			}
			// A reconcile by a list of the same cache undoes nothing.
			r.lose(func(api *fakeAPI) {
				api.put("a", "other", "yes")
				api.put("a", "other", "yes")
			})
			r.eventually("the end", func() bool {
				return slices.ContainsFunc(r.since(n), func(l string) bool { return strings.Contains(l, "a/other") })
			})
			r.caughtUp()
			r.consistent()
			if s := r.manager.Targets()[0]; s.Epoch != 0 {
				t.Errorf("epoch %d although nothing was restored", s.Epoch)
			}
		})
	}
}

// A deletion that an audit has found is at a revision from before the checkpoint. A process
// that is killed then leaves no sign of a journal that has lost events.
func TestKilledAfterARepair(t *testing.T) {
	api := fourObjects(t)
	r := start(t, api, things())
	r.caughtUp()
	api.lie("a", "deleted")
	api.del("a", "deleted")
	api.do(func() { api.rev++ }) // of another resource
	r.caughtUp()
	r.eventually("a mark of now", func() bool {
		return strings.Contains(string(r.log.marksNow()["example.com/things"]), fmt.Sprintf(`"rv":%d,`, r.manager.Targets()[0].ResourceVersion))
	})
	if got := r.auditNow(); got.Err != nil || got.Divergences != 1 {
		t.Fatalf("audit: %+v", got)
	}
	r.stop(true)
	n := len(r.log.all())
	r.begin(things())
	r.caughtUp()
	if got := r.since(n); len(got) > 0 {
		t.Errorf("events after the restart: %q", got)
	}
}

// The scheduled audit convicts, too, and repairs within one interval.
func TestWrongWatchCacheByItself(t *testing.T) {
	api := fourObjects(t)
	r := start(t, api)
	r.manager.SetAudit(100 * time.Millisecond)
	if err := r.manager.Apply([]dynwatch.Resource{things()}); err != nil {
		t.Fatal(err)
	}
	r.caughtUp()
	api.lie("a", "changed")
	api.put("a", "changed", "yes")
	r.eventually("a conviction", func() bool { return r.manager.Targets()[0].Mismatched > 0 })
	r.consistent()
	if n := len(r.manager.Targets()[0].Mismatches); n > 20 {
		t.Errorf("%d mismatches are kept", n)
	}
}

// While a sample is read, the watch brings the end of an object that it is to repair.
func TestRepairOfWhatHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		forgets  bool
		selector string
		end      func(api *fakeAPI)
	}{
		"deleted":                        {end: func(api *fakeAPI) { api.del("a", "changed") }},
		"deleted, the log keeps nothing": {forgets: true, end: func(api *fakeAPI) { api.del("a", "changed") }},
		"left":                           {selector: "on=yes", end: func(api *fakeAPI) { api.put("a", "changed", "no") }},
	} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			wanted := things()
			wanted.LabelSelector = c.selector
			r := startOn(t, api, func(l *recorder) { l.forgets = c.forgets }, func(*dynwatch.Limits) {}, wanted)
			r.caughtUp()
			rv := api.put("a", "changed", "yes")
			api.do(func() { api.rev++ }) // of another resource
			r.caughtUp()
			hold, asked := make(chan struct{}), make(chan struct{}, 1)
			api.do(func() {
				api.lists = func(state map[string]change, _ bool) { // lags on one object
					if c, ok := state["a/changed"]; ok && c.rev == rv {
						c.rev = 101
						state["a/changed"] = c
					}
				}
				api.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
					if byNameAt(r, "same") != 0 {
						select {
						case asked <- struct{}{}:
						default:
						}
						<-hold
					}
					return false
				}
			})
			audited := make(chan struct{})
			go func() {
				defer close(audited)
				r.auditNow()
			}()
			<-asked
			n := len(r.log.all())
			c.end(api)
			api.put("a", "same", "yes")
			r.caughtUp()
			close(hold)
			<-audited
			r.caughtUp()
			if got := r.since(n); len(got) != 2 {
				t.Errorf("events\n%s\nwant the end of one object and a change of another", strings.Join(got, "\n"))
			}
			if s := r.manager.Targets()[0]; s.Epoch != 0 {
				t.Errorf("epoch %d although nothing was restored", s.Epoch)
			}
		})
	}
}

// A cache that shows a deleted object again and again is convicted: it proves no restore.
func TestGhostOfAWatchCacheIsNoRollback(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprintf("compacted: %t", compacted), func(t *testing.T) {
			api := fourObjects(t)
			r := start(t, api, things())
			r.caughtUp()
			ghost := api.state()["a/deleted"]
			r.stop(false)
			api.del("a", "deleted")
			api.forget()
			r.begin(things())
			r.caughtUp()
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
			if s := r.manager.Targets()[0]; s.Epoch != 0 {
				t.Errorf("epoch %d although nothing was restored", s.Epoch)
			}
			r.consistent()
		})
	}
}

// An API server that has found its cache wrong serves exact lists from etcd.
func TestAuditListsAtAnExactRevision(t *testing.T) {
	api := fourObjects(t)
	r := start(t, api, things())
	r.caughtUp()
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
	if got := r.auditNow(); got.Err != nil || got.Divergences != 1 {
		t.Errorf("audit: %+v", got)
	}
	r.consistent()
}

// A wrong list that a re-snapshot meets is no rollback, and is shown.
func TestWrongListOfAResnapshot(t *testing.T) {
	api := fourObjects(t)
	r := start(t, api, things())
	r.caughtUp()
	api.put("a", "changed", "yes")
	r.caughtUp()
	api.do(func() {
		api.lists = func(state map[string]change, _ bool) {
			old := state["a/changed"]
			old.rev = 101
			state["a/changed"] = old
		}
	})
	r.resnapshot()
	if s := r.manager.Targets()[0]; s.Epoch != 0 || s.Mismatched != 1 {
		t.Errorf("status %+v", s)
	}
}
