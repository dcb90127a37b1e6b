package dynwatch_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestAuditFindsAWrongDeletion: a list lacked many objects rightly and one wrongly, of which etcd confirms a part. Once
// lists are right, an audit finds that one: what follows needs ids of a new epoch, as consumers have seen these, and
// its deletion.
func TestAuditFindsAWrongDeletion(t *testing.T) {
	const objects = 200
	api := newFakeAPI(t)
	api.putMany(objects, "")
	r := startLimited(t, api, func(l *dynwatch.Limits) { l.Requests = 0 }, things())
	r.caughtUp()
	api.hide("a/x1")
	before := api.requestsWith("fieldSelector=metadata.name%3D")
	r.lose(func(api *fakeAPI) {
		for i := range objects {
			if i != 1 {
				api.del("a", fmt.Sprint("x", i))
			}
		}
	})
	r.eventually("the deletions", func() bool { return r.manager.Targets()[0].Objects == 0 })
	if n := api.requestsWith("fieldSelector=metadata.name%3D") - before; n == 0 || n > 40 {
		t.Errorf("%d requests by name", n)
	}
	api.do(func() { api.lists = nil })
	api.put("a", "y", "")
	r.caughtUp()
	n := len(r.log.all())
	r.wantAudit(1)
	r.eventually("it is back", func() bool { return r.manager.Targets()[0].Objects == 2 })
	r.caughtUp()
	for _, e := range r.log.all()[n:] {
		if e.Name == "x1" && e.Op != event.Deleted && e.Epoch != 1 {
			t.Errorf("%s %s has an id that consumers have seen", e.Op, e.ID)
		}
	}
	r.wantEpoch(1)
}

// TestAuditWhileANamespaceLeaves: objects of a namespace that no longer matches leave once the watch has passed the change.
// Until then no list has them, which is no divergence.
func TestAuditWhileANamespaceLeaves(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "/team-b yes", "team-a/one", "team-b/two")
	r := start(t, api)
	r.manager.SetAudit(100 * time.Millisecond)
	must(t, r.manager.Apply([]dynwatch.Resource{labelled()}))
	r.caughtUp()
	api.do(func() { api.slow = ofThings })
	api.put("team-a", "one", "")
	api.put("", "team-a", "no")
	audits := r.manager.Targets()[0].Audits
	r.eventually("audits", func() bool { return r.manager.Targets()[0].Audits > audits+3 })
	api.do(func() { api.slow = nil })
	r.eventually("it leaves", func() bool { return count(r.log.all(), event.Left) == 1 })
	r.caughtUp()
	if s := r.manager.Targets()[0]; s.Divergences != 0 {
		t.Errorf("%d divergences, events %q", s.Divergences, r.since(0))
	}
}

// TestKilledWhileAnAuditCompares: the list is wrong, and the process is killed before etcd has said so. The watch goes on.
func TestKilledWhileAnAuditCompares(t *testing.T) {
	api := fourObjects(t)
	r, n := liveFrom(t, api, things())
	api.hide("a/same")
	compares := make(chan struct{})
	api.before(comparison, func(r *http.Request, n int64) {
		if n == 2 {
			close(compares)
			<-r.Context().Done()
		}
	})
	go func() { _, _ = r.manager.Audit(t.Context()) }()
	<-compares
	r.stop(true)
	r.begin(things())
	r.within(5*time.Second, "live", func() bool { return r.manager.Targets()[0].State == dynwatch.Live })
	r.wantEvents(n)
}

// TestRollbackWithoutLookUps: etcd was restored, and look-ups by name keep failing.
func TestRollbackWithoutLookUps(t *testing.T) {
	api := fourObjects(t)
	api.put("a", "born", "")
	r := live(t, api, things())
	api.keepRefusing(byName, answers()["403"])
	api.rollBack(104)
	r.within(20*time.Second, "live", func() bool {
		s := r.manager.Targets()[0]
		return s.State == dynwatch.Live && s.Epoch == 1 && s.Objects == 4
	})
}
