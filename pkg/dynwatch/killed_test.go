package dynwatch_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// killedAt waits until the process is killed as it appends an event, and begins the next one.
func (r *rig) killedAt() {
	r.t.Helper()
	r.untilKilled()
	r.stop(true)
	r.log.set(func() { r.log.kills = nil })
	r.begin(things())
}

// wantReason waits for a gap and compares its reason.
func (r *rig) wantReason(n int, want string) {
	r.t.Helper()
	var reasons []string
	r.eventually("a gap", func() bool {
		reasons = nil
		for _, e := range r.log.all()[n:] {
			if e.Op == event.Gap {
				reasons = append(reasons, e.Gap.Reason)
			}
		}
		return len(reasons) > 0
	})
	r.caughtUp()
	if diff := cmp.Diff([]string{want}, reasons); diff != "" {
		r.t.Errorf("%s\n%q", diff, r.since(n))
	}
}

// TestKilledBeforeTheGapOfARollback: the deletions after a rollback have lower revisions than the
// checkpoint. The journal has lost no event.
func TestKilledBeforeTheGapOfARollback(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.put("a", "changed", "yes") // 105
	api.put("a", "lost", "yes")    // 106
	api.put("a", "changed", "yes") // 107
	r.caughtUp()
	n := len(r.log.all())
	r.log.set(func() { r.log.kills = func(e event.Event) bool { return e.Op == event.Gap } })
	api.do(func() { api.mute = true })
	api.rollBack(104)
	api.put("a", "changed", "no") // 105 again
	api.do(func() { api.mute = false })
	r.killedAt()
	r.wantReason(n, "rollback")
}

// TestKilledBeforeAnAddedEvent: a walk notes that revisions are missing while an object that it has
// found waits for its append. The checkpoint does not count that object.
func TestKilledBeforeAnAddedEvent(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	r.log.set(func() { r.log.kills = func(e event.Event) bool { return e.Op == event.Added } })
	n := r.lose(func(api *fakeAPI) {
		api.put("a", "changed", "yes") // 105
		api.put("a", "changed", "yes") // 106
		api.compact()
		api.put("a", "born", "yes") // 107
		api.put("a", "born", "yes") // 108
		for range 8 {               // so that its walk ends after that of the other object
			api.put("a", "changed", "yes")
		}
	})
	r.killedAt()
	r.wantReason(n, "expired")
}

// TestKilledAfterALateDeletion: a server without etcd sends a deletion at a revision below the
// checkpoint. The journal has lost no event.
func TestKilledAfterALateDeletion(t *testing.T) {
	api := newFakeAPI(t, "a/x", "a/y", "a/z")
	send := sendFrames(api)
	r, n := liveFrom(t, api, things())
	send(frameOf("DELETED", "x", "uid-1", 101))
	r.eventually("the deletion", func() bool { return len(r.since(n)) == 1 })
	r.stop(true)
	n = len(r.log.all())
	r.goLive(things())
	send(frameOf("ADDED", "more", "uid-more", 300))
	r.eventually("the next event", func() bool { return len(r.since(n)) > 0 })
	r.wantEvents(n, "added a/more uid-more 300")
}

// What an edit has dropped stays out of the index however often informd starts: no
// audit finds it missing, and nothing is told of it.
func TestRestartsAfterAnEdit(t *testing.T) {
	meanwhile := map[string]func(*fakeAPI){
		"nothing":                        func(*fakeAPI) {},
		"etcd forgets":                   func(api *fakeAPI) { api.put("", "other", ""); api.compact() },
		"etcd and the API server forget": func(api *fakeAPI) { api.put("", "other", ""); api.compact(); api.forget() },
	}
	for edited, edit := range edits() {
		for what, happens := range meanwhile {
			for name, kill := range map[string]bool{"stopped": false, "killed": true} {
				t.Run(edited+", "+what+", "+name, func(t *testing.T) {
					restartAfterEdit(t, edit, happens, kill)
				})
			}
		}
	}
}

func restartAfterEdit(t *testing.T, edit func(*dynwatch.Resource), happens func(*fakeAPI), kill bool) {
	api := newFakeAPI(t)
	for ns, label := range map[string]string{"team-a": "yes", "team-b": "no"} {
		api.put("", ns, label)
		api.put(ns, "one", label)
	}
	wanted := inNamespaces("team-*")
	r := live(t, api, wanted)
	edit(&wanted)
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	r.caughtUp()
	n := len(r.log.all())
	for range 3 {
		r.stop(kill)
		happens(api)
		r.goLive(wanted)
		api.admit()
		r.eventually("an audit without divergences", func() bool {
			got := r.auditNow()
			if got.Divergences != 0 {
				t.Fatalf("audit: %+v", got)
			}
			return got.Err == nil && got.Objects == 1
		})
		same(t, 1, r.manager.Targets()[0].Objects)
	}
	api.put("team-b", "one", "no")
	api.del("team-b", "one")
	r.caughtUp()
	r.wantThings(n)
}

// What left, came or was deleted while informd was down is told, whatever was dropped
// before.
func TestChangesDuringDowntimeAfterAnEdit(t *testing.T) {
	tests := map[string]struct {
		forget func(*fakeAPI)
		want   []string
	}{
		"etcd remembers": {func(*fakeAPI) {}, []string{"left a/leaves 106", "deleted a/ends 107"}},
		"etcd forgets":   {(*fakeAPI).compact, []string{"left a/leaves 106", "deleted a/ends 107"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			for name, label := range map[string]string{"dropped": "no", "dropped-2": "no", "leaves": "yes", "ends": "yes", "stays": "yes"} {
				api.put("a", name, label)
			}
			r := live(t, api, things())
			wanted := selectingOn()
			must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
			r.caughtUp()
			n := len(r.log.all())
			r.stop(false)
			api.put("a", "leaves", "no")
			api.del("a", "ends")
			api.del("a", "dropped-2")
			tt.forget(api)
			r.goLive(wanted)
			r.eventually("the events", func() bool { return len(thingLines(r.log.all()[n:])) >= len(tt.want) })
			same(t, sorted(tt.want), sorted(thingLines(r.log.all()[n:])))
			r.wantAuditOf(1)
			n = len(r.log.all())
			rev := api.put("a", "dropped", "yes")
			r.caughtUp()
			r.eventually("it comes back", func() bool { return len(r.log.all()) == n+1 })
			if e := r.log.all()[n]; e.Op != "entered" || e.ResourceVersion != rev {
				t.Errorf("what comes back: %s", r.since(n))
			}
		})
	}
}

func (r *recorder) Forget(_ context.Context, objects []event.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dying {
		return errDying
	}
	taken := r.used(len(objects))
	for i := range objects[:taken] {
		r.forgotten[objects[i].Key()] = len(r.events)
	}
	if r.dying = taken < len(objects); r.dying {
		return errDying
	}
	return nil
}

// TestKilledOverAnEdit kills the process behind each record that follows from an edit. Whatever the log has
// forgotten by then, nothing is said of an object that is excluded and exists, and an edit back announces it.
func TestKilledOverAnEdit(t *testing.T) {
	for name, edit := range edits() {
		for _, compacted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, compacted: %t", name, compacted), func(t *testing.T) {
				for room := 0; killedOverAnEdit(t, edit, room, compacted); room++ {
					if t.Failed() {
						t.Fatalf("killed after %d records", room)
					}
				}
			})
		}
	}
}

// edits exclude the namespace team-b or its objects.
func edits() map[string]func(*dynwatch.Resource) {
	return map[string]func(*dynwatch.Resource){
		"labels":               func(r *dynwatch.Resource) { r.LabelSelector = "on=yes" },
		"names of namespaces":  func(r *dynwatch.Resource) { r.ExcludeNamespaces = []string{"team-b"} },
		"labels of namespaces": func(r *dynwatch.Resource) { r.NamespaceSelector = "on=yes" },
		"all of it": func(r *dynwatch.Resource) {
			r.LabelSelector, r.NamespaceSelector, r.ExcludeNamespaces = "on=yes", "on=yes", []string{"team-c"}
		},
	}
}

// killedOverAnEdit is one run of it. It returns false if the process was not killed, as it had nothing more to write.
func killedOverAnEdit(t *testing.T, edit func(*dynwatch.Resource), room int, compacted bool) (killed bool) {
	api := newFakeAPI(t)
	for ns, label := range map[string]string{"team-a": "yes", "team-b": "no"} {
		api.put("", ns, label)
		for _, name := range []string{"one", "two", "three"} {
			api.put(ns, name, label)
		}
	}
	before := inNamespaces("team-*")
	r := live(t, api, before)
	r.stop(false)
	n := len(r.log.all())
	wanted := before
	edit(&wanted)
	r.log.set(func() { r.log.room = &room })
	r.begin(wanted)
	r.eventually("killed, or through", func() bool {
		r.log.set(func() { killed = r.log.dying })
		return killed || r.manager.Targets()[0].State == dynwatch.Live
	})
	r.stop(true)
	r.log.set(func() { r.log.room = nil })
	api.del("team-b", "two") // informd may find that out, or not know the object any more
	changed := api.put("team-a", "one", "yes")
	if compacted {
		api.compact()
	}
	for range 2 {
		r.goLive(wanted)
		r.wantAuditOf(3)
		same(t, 3, r.manager.Targets()[0].Objects)
		r.stop(false)
	}
	events := slices.DeleteFunc(thingLines(r.log.all()[n:]), func(line string) bool {
		return strings.HasPrefix(line, "deleted team-b/two ")
	})
	same(t, []string{fmt.Sprintf("modified team-a/one %d", changed)}, events)
	n = len(r.log.all())
	r.goLive(before)
	announced := map[string]event.Op{}
	for _, e := range r.log.all()[n:] {
		if !e.Op.Control() {
			announced[e.Namespace+"/"+e.Name] = e.Op
		}
	}
	same(t, map[string]event.Op{"team-b/one": event.Snapshot, "team-b/three": event.Snapshot}, announced)
	r.stop(false)
	return killed
}

// TestEditWhileEtcdCompacts: etcd compacts the revision of the list before it has said what became of an object that
// the list lacks. Nothing is said of the object if it is there.
func TestEditWhileEtcdCompacts(t *testing.T) {
	api := newFakeAPI(t, "a/excluded no", "a/ends no", "a/stays yes")
	wanted := things()
	r, n := liveFrom(t, api, wanted)
	var asked atomic.Int64
	api.before(func(r *http.Request) bool {
		q := r.URL.Query()
		return selectedName(q.Get("fieldSelector")) != "" && q.Get("resourceVersion") != "" && q.Get("labelSelector") == ""
	}, func(_ *http.Request, number int64) {
		if asked.Store(number); number == 1 {
			api.del("a", "ends")
		}
		api.put("", "other", "")
		api.compact()
	})
	wanted.LabelSelector = "on=yes"
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	r.eventually("one object", func() bool { return r.manager.Targets()[0].Objects == 1 })
	api.admit()
	r.caughtUp()
	r.restart(false, wanted)
	if s := r.manager.Targets()[0]; s.Objects != 1 || asked.Load() == 0 {
		t.Errorf("%d objects, asked %d times", s.Objects, asked.Load())
	}
	for _, line := range thingLines(r.log.all()[n:]) {
		if !strings.HasPrefix(line, "deleted a/ends ") {
			t.Error(line)
		}
	}
}
