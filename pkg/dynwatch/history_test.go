package dynwatch_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// restore makes the state that of a backup taken at a revision, and raises the revision
// of the store to head, as etcdutl snapshot restore --bump-revision does. Watches stay
// open, and nothing is compacted.
func (f *fakeAPI) restore(backup, head uint64) {
	f.do(func() { f.restoreLocked(backup, head) })
}

func (f *fakeAPI) restoreLocked(backup, head uint64) {
	f.history = slices.DeleteFunc(f.history, func(c change) bool { return c.rev > backup })
	f.rev = head
}

// restoreCompacted is restore with --mark-compacted: watches end, and no revision before
// the new head can be read.
func (f *fakeAPI) restoreCompacted(backup, head uint64) {
	f.do(func() {
		f.restoreLocked(backup, head)
		f.generation++
		f.oldest, f.compacted = head, head
	})
}

// view is the state of a consumer that applies events in order; one that deduplicates
// leaves out events with an id that it has seen.
func view(events []event.Event, deduplicates bool) map[string]string {
	objects, seen := make(map[string]string), make(map[string]bool)
	for _, e := range events {
		if e.Op.Control() || deduplicates && seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		name := e.Namespace + "/" + e.Name
		if e.Op.Ends() {
			if strings.HasPrefix(objects[name], e.UID+" ") {
				delete(objects, name)
			}
			continue
		}
		objects[name] = fmt.Sprintf("%s %d", e.UID, e.ResourceVersion)
	}
	return objects
}

// consistent waits until consumers with and without deduplication hold what the fake does.
func (r *rig) consistent() {
	r.t.Helper()
	want := make(map[string]string)
	for key, c := range r.api.state() {
		if !c.isNamespace() {
			want[key] = fmt.Sprintf("%s %d", c.uid, c.rev)
		}
	}
	for _, deduplicates := range []bool{false, true} {
		r.eventually(fmt.Sprintf("the state of a consumer, deduplicating %t", deduplicates), func() bool {
			return maps.Equal(want, view(r.log.all(), deduplicates))
		})
	}
}

// rolledBack waits for the one rollback, and for a gap that declares it.
func (r *rig) rolledBack() {
	r.t.Helper()
	r.untilEpoch(1)
	r.untilGap(0, "rollback")
	r.consistent()
	r.caughtUp()
	r.wantEpoch(1)
}

// sinceBackup are changes that a restore undoes, each of which proves it by another fact.
func sinceBackup() map[string]func(api *fakeAPI) {
	return map[string]func(api *fakeAPI){
		"a change":      func(api *fakeAPI) { api.put("a", "changed", "yes") },
		"a deletion":    func(api *fakeAPI) { api.del("a", "deleted") },
		"a re-creation": func(api *fakeAPI) { api.del("a", "recreated"); api.put("a", "recreated", "yes") },
		"all kinds": func(api *fakeAPI) {
			api.put("a", "changed", "yes")
			api.del("a", "deleted")
			api.del("a", "recreated")
			api.put("a", "recreated", "yes")
			api.put("a", "born", "yes")
		},
	}
}

// TestDeletedObjectThatChanges: the watch brings a change of an object that the log says was deleted. Etcd was restored, or
// a list was wrong. Without a new epoch its next deletion has the id of the first one, and a consumer drops it.
func TestDeletedObjectThatChanges(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.del("a", "deleted")
	r.caughtUp()
	api.restore(104, 200)
	api.put("a", "deleted", "")
	r.rolledBack()
	api.del("a", "deleted")
	r.consistent()
}

// TestReturnedAsNamespacesChange: informd was killed after a deletion, and its log is ahead of the checkpoint. Etcd is
// restored to before the deletion, and another namespace matches, so that a list is compared. The object returns.
func TestReturnedAsNamespacesChange(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "/team-b no", "team-a/one")
	r := live(t, api, labelled())
	r.forgetsTheMarksOf(func() { api.del("team-a", "one") }, labelled()) // 104
	api.restore(103, 200)
	api.put("team-a", "one", "")
	api.put("", "team-b", "yes")
	api.compact() // so that the list is of now
	r.begin(labelled())
	r.rolledBack()
}

// forgetsTheMarksOf has the next process watch what is written, and then be killed before its first mark.
func (r *rig) forgetsTheMarksOf(write func(), wanted dynwatch.Resource) {
	r.t.Helper()
	r.stop(false)
	marks := r.log.marksNow()
	r.goLive(wanted)
	write()
	r.caughtUp()
	r.stop(true)
	r.log.set(func() { r.log.marks = marks })
}

// TestRollbackBehindTheLog: informd was killed, and its log is ahead of the checkpoint. The new history has passed the
// checkpoint, and not the log.
func TestRollbackBehindTheLog(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	r.forgetsTheMarksOf(func() { api.putTimes(2, "a", "changed", "") }, things())
	api.rollBack(104)
	api.put("a", "same", "")
	r.begin(things())
	r.rolledBack()
}

// Etcd was restored with a raised revision, while informd runs or is down: the head is higher than before, and only the
// objects show that they are older.
func TestRollbackBehindARaisedRevision(t *testing.T) {
	for name, change := range sinceBackup() {
		for how, c := range map[string]struct{ forgets, down bool }{
			"the log keeps objects": {}, "the log keeps none": {forgets: true}, "while informd is down": {down: true},
		} {
			if c.forgets && name == "a deletion" {
				continue // only the log knows of it
			}
			t.Run(name+", "+how, func(t *testing.T) {
				api := fourObjects(t)
				r := newRig(t, api)
				r.log.forgets = c.forgets
				r.goLive(things())
				change(api)
				r.caughtUp()
				if c.down {
					r.stop(false)
				}
				api.restoreCompacted(104, 100_000)
				if c.down {
					r.begin(things())
				}
				r.rolledBack()
				api.put("a", "same", "yes")
				r.caughtUp()
				r.consistent()
			})
		}
	}
}

// A deletion proves a restore that undoes it, also if no watch has brought the deletion.
func TestRollbackOfADeletionThatAListFound(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	r.stop(false)
	api.del("a", "deleted")
	api.forget()
	r.goLive(things())
	r.consistent()
	api.restoreCompacted(104, 100_000)
	r.rolledBack()
}

// The restore comes while lost history is being made up for: a part of what it undoes has
// been announced, at revisions that the target has not come to.
func TestRollbackAmidAMakingUp(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("the process dies: %t", dies), func(t *testing.T) {
			api := fourObjects(t)
			r := start(t, api, things())
			var last atomic.Uint64 // what the making up ends with cannot be read
			api.keepRefusing(func(r *http.Request) bool {
				return last.Load() != 0 && byNameAt(r, "changed") == last.Load()
			}, refusal(500, "InternalError", "etcdserver: request timed out"))
			backup := uint64(0)
			r.lose(func(api *fakeAPI) {
				backup = api.put("a", "deleted", "yes")
				api.del("a", "deleted")
				last.Store(api.put("a", "changed", "yes"))
			})
			r.until(0, event.Deleted)
			if dies {
				r.stop(true)
			}
			last.Store(0)
			api.restoreCompacted(backup, 100_000)
			if dies {
				r.begin(things())
			}
			r.rolledBack()
		})
	}
}

// Without --mark-compacted the watches of a running API server go on as if nothing had
// happened. Whatever reads objects finds the rollback.
func TestRollbackUnderOpenWatches(t *testing.T) {
	for name, find := range map[string]func(r *rig){
		"audit": func(r *rig) {
			if got := r.auditNow(); got.Divergences == 0 || got.Err != nil {
				r.t.Errorf("audit: %+v", got)
			}
		},
		"re-snapshot": func(r *rig) { r.resnapshot() },
		"silence":     func(r *rig) { r.api.do(func() { r.api.mute = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := liveHasty(t, api, things())
			sinceBackup()["all kinds"](api)
			r.caughtUp()
			api.restore(104, 200)
			if name != "silence" {
				r.caughtUp()
			}
			find(r)
			r.untilEpoch(1)
			api.do(func() { api.mute = false })
			r.rolledBack()
		})
	}
}

// A list that is older than what was announced proves nothing, nor does an answer of a
// watch cache that etcd does not confirm.
func TestAnOldAnswerIsNoRollback(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.put("a", "changed", "yes") // 105
	r.caughtUp()
	api.do(func() {
		api.lists = func(state map[string]change, exact bool) {
			if old, ok := state["a/changed"]; ok && !exact {
				old.rev = 101
				state["a/changed"] = old
			}
		}
	})
	r.resnapshot()
	r.auditNow()
	api.put("a", "same", "yes")
	r.caughtUp()
	r.wantEpoch(0)
}

// Nothing that is selected shows that etcd was restored. What was deleted, and comes to be
// selected later, does.
func TestRestoreRevivesWhatIsNotSelected(t *testing.T) {
	byLabel := things()
	byLabel.LabelSelector = "on=yes"
	byNamespace := func(api *fakeAPI) { api.put("", "team-a", "yes") }
	tests := map[string]struct {
		resource dynwatch.Resource
		enter    func(api *fakeAPI)
		// noticed: the target notices how the restored namespaces are labelled, by another one.
		noticed bool
		// reused: another object had the name since. changed: it has changed and left, and is not deleted.
		reused, changed bool
	}{
		"by the label of its namespace": {resource: labelled(), enter: byNamespace},
		"once its namespace left":       {resource: labelled(), enter: byNamespace, noticed: true},
		"its name was used again":       {resource: labelled(), enter: byNamespace, noticed: true, reused: true},
		"it was newer, and not deleted": {resource: labelled(), enter: byNamespace, noticed: true, changed: true},
		"by its own label":              {resource: byLabel, enter: func(api *fakeAPI) { api.put("team-a", "one", "yes") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a no", "/team-b no", "team-a/one no")
			api.put("team-b", "two", "no") // 104
			r := start(t, api, test.resource)
			holds := func(n int) {
				t.Helper()
				r.eventually(fmt.Sprintf("%d objects", n), func() bool { return len(view(r.log.all(), true)) == n })
			}
			r.caughtUp()
			test.enter(api)
			holds(1)
			if test.changed {
				api.put("team-a", "one", "no")
				api.put("", "team-a", "no")
			} else {
				api.del("team-a", "one")
			}
			holds(0)
			if test.reused {
				api.put("team-a", "one", "no")
				holds(1)
				api.del("team-a", "one")
				holds(0)
			}
			if test.noticed {
				api.put("", "team-b", "yes")
				holds(1)
			}
			r.caughtUp()
			api.restoreCompacted(104, 100_000)
			if holds(0); test.noticed {
				r.caughtUp()
			}
			test.enter(api)
			r.untilEpoch(1)
			holds(1)
		})
	}
}
