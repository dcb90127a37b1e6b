package dynwatch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
