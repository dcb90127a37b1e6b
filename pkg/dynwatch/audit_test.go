package dynwatch_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// auditNow audits the only target.
func (r *rig) auditNow() dynwatch.AuditResult {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), deadline)
	defer cancel()
	results, err := r.manager.Audit(ctx)
	if err != nil || len(results) != 1 {
		r.t.Fatalf("audit: %v, %+v", err, results)
	}
	return results[0]
}

// drop has the watches leave out frames that hold all parts.
func (f *fakeAPI) drop(parts ...string) {
	f.do(func() {
		f.left = func(frame string) bool {
			for _, part := range parts {
				if !strings.Contains(frame, part) {
					return false
				}
			}
			return true
		}
	})
}

func TestAuditOfAWholeStream(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	n, lists := len(r.log.all()), api.requestsWith("things?limit=500")
	want := dynwatch.AuditResult{Target: "example.com/things", Revision: 104, Objects: 4}
	same(t, want, r.auditNow())
	s := r.manager.Targets()[0]
	if s.Audits != 1 || s.Divergences != 0 || s.Audited.IsZero() || s.Watches != 1 || len(r.log.all()) != n {
		t.Errorf("status %+v, events %q", s, r.since(n))
	}
	if got := api.requestsWith("things?limit=500") - lists; got != 1 {
		t.Errorf("%d lists", got)
	}
}

func TestAuditFindsWhatTheWatchLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		drop  []string
		write func(api *fakeAPI)
		want  []string
	}{
		"a deletion": {
			[]string{`"DELETED"`},
			func(api *fakeAPI) { api.del("a", "deleted") },
			[]string{"deleted a/deleted uid-2 106<102 replay"},
		},
		"a change": {
			[]string{`"MODIFIED"`, `"changed"`},
			func(api *fakeAPI) { api.put("a", "changed", "") },
			[]string{"modified a/changed uid-1 105<101 replay"},
		},
		"a birth": {
			[]string{`"ADDED"`},
			func(api *fakeAPI) { api.put("a", "born", "") },
			[]string{"added a/born uid-5 105 replay"},
		},
		"a re-creation": {
			[]string{`"recreated"`},
			func(api *fakeAPI) { api.del("a", "recreated"); api.put("a", "recreated", "") },
			[]string{"added a/recreated uid-5 106 replay", "deleted a/recreated uid-3 105<103 replay"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			api.drop(c.drop...)
			n := len(r.log.all())
			c.write(api)
			api.put("a", "same", "")
			r.caughtUp()
			r.wantAudit(1)
			r.eventually("events", func() bool { return len(r.log.all()) >= n+len(c.want)+2 })
			r.caughtUp()
			r.wantAudit(0)
			var found []string
			for _, line := range r.since(n) {
				if !strings.Contains(line, "a/same") && !strings.HasPrefix(line, "gap") {
					found = append(found, line)
				}
			}
			same(t, c.want, sorted(found))
			checkStream(t, r.log.all(), api)
			if s := r.manager.Targets()[0]; s.Audits != 2 || s.Divergences != 1 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// Of objects that ended at one revision one was left out. An audit does not say that nothing differs while the watch may
// have more to bring of that revision. What makes up for it must not be announced again when the watch goes on.
func TestAuditAtTheEndOfALease(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.drop(`"deleted"`)
	api.expire("a", "changed", "deleted", "same")
	r.eventually("two ends", func() bool { return r.manager.Targets()[0].Objects == 2 })
	outcome := make(chan dynwatch.AuditResult, 1)
	go func() { outcome <- r.auditNow() }()
	select {
	case got := <-outcome:
		t.Fatalf("audit: %+v", got)
	case <-time.After(300 * time.Millisecond):
	}
	api.put("a", "next", "")
	r.caughtUp()
	if got := <-outcome; got.Divergences != 1 || got.Err != nil {
		t.Errorf("audit: %+v, want 1 divergence", got)
	}
	api.do(func() { api.left = nil })
	r.eventually("the third end", func() bool { return r.manager.Targets()[0].Objects == 2 })
	api.put("a", "later", "")
	r.caughtUp()
	checkStream(t, r.log.all(), api)
}

func TestAuditByItself(t *testing.T) {
	api := fourObjects(t)
	r := start(t, api)
	r.manager.SetAudit(100 * time.Millisecond)
	must(t, r.manager.Apply([]dynwatch.Resource{things()}))
	r.eventually("a clean audit", func() bool { return r.manager.Targets()[0].Audits > 0 })
	r.caughtUp()
	api.drop(`"DELETED"`)
	api.del("a", "deleted")
	r.eventually("the deletion", func() bool {
		s := r.manager.Targets()[0]
		return s.Divergences == 1 && s.Objects == 3 && s.Audits > 2
	})
	r.caughtUp()
	checkStream(t, r.log.all(), api)
	for _, e := range r.log.all() {
		if e.Op == event.Gap && *e.Gap != (event.GapInfo{From: 104, To: 105, Reason: "audit", Recovered: event.RecoveredState}) {
			t.Errorf("gap %+v", e.Gap)
		}
	}
}

// An audit amid writes finds nothing: what the watch has yet to bring, or has
// brought since, is no divergence.
func TestAuditAmidWrites(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	stop := api.load(200*time.Microsecond, func(i int) {
		name := string(rune('a' + i%10))
		if i%3 == 0 {
			api.del("a", name)
		} else {
			api.put("a", name, "")
		}
		if i%40 == 0 {
			api.expire("a", "a", "b", "c", "d", "e")
		}
	})
	for range 30 {
		r.wantAudit(0)
	}
	stop()
	r.caughtUp()
	checkStream(t, r.log.all(), api)
}

// TestAuditSparesRejectedObjects: that no event has their state is no divergence, also for a process that has rejected
// nothing. Once such an object can be emitted it counts again.
func TestAuditSparesRejectedObjects(t *testing.T) {
	api := fourObjects(t)
	api.unemittable(`"name":"same"`)
	r := live(t, api, things())
	for range 2 {
		r.wantAuditOf(4)
		r.restart(false, things())
	}
	api.do(func() { api.mangle = nil })
	api.put("a", "same", "")
	r.caughtUp()
	api.drop(`"same"`)
	api.put("a", "same", "")
	r.caughtUp()
	r.wantAudit(1)
}

// Nothing tells an object without a UID from the one that was rejected before: no audit stores it again.
func TestAuditOfAnObjectWithoutUID(t *testing.T) {
	api := fourObjects(t)
	api.do(func() {
		api.mangle = func(s string) string { return strings.Replace(s, `"uid":"uid-4"`, `"uid":""`, 1) }
	})
	r := live(t, api, things())
	before := r.manager.Targets()[0]
	r.wantAudit(0)
	if now := r.manager.Targets()[0]; now.Rejected != before.Rejected || now.Watches != before.Watches {
		t.Errorf("%d rejections and %d watches, %d and %d before", now.Rejected, now.Watches, before.Rejected, before.Watches)
	}
}

// A list that is wrong, as etcd says, is no divergence: it shows a deleted object, or lacks one, which ends the audit.
func TestAuditOfAWrongList(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	ghost := api.state()["a/deleted"]
	api.del("a", "deleted")
	api.put("a", "changed", "")
	r.caughtUp()
	n := len(r.log.all())
	for i, wrong := range []func(map[string]change){
		func(state map[string]change) { state["a/deleted"] = ghost },
		func(state map[string]change) { delete(state, "a/same") },
	} {
		api.do(func() { api.lists = func(state map[string]change, _ bool) { wrong(state) } })
		if got := r.auditNow(); got.Divergences != 0 || (got.Err != nil) != (i == 1) || len(r.log.all()) > n {
			t.Errorf("%+v, events %q", got, r.since(n))
		}
	}
}

func TestAuditUnderASelector(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, selectingOn())
	api.drop(`"DELETED"`)
	n := len(r.log.all())
	api.put("a", "changed", "no") // leaves
	r.caughtUp()
	r.wantAudit(1)
	r.eventually("events", func() bool { return len(r.log.all()) >= n+2 })
	r.wantUnordered(n, "gap (104,105] audit state", "left a/changed uid-1 105<101 replay")
}

func TestAuditSaysWhyThereIsNoOutcome(t *testing.T) {
	api := newFakeAPI(t)
	api.do(func() { api.served = false })
	r := start(t, api, things())
	r.state(dynwatch.Waiting)
	if got := r.auditNow(); got.Err == nil || !strings.Contains(got.Err.Error(), "waiting") {
		t.Errorf("%+v", got)
	}
	api.do(func() { api.served = true })
	r.caughtUp()
	api.keepRefusing(isPage, refusal(403, "Forbidden", "no list today"))
	if got := r.auditNow(); got.Err == nil || !strings.Contains(got.Err.Error(), "no list today") {
		t.Errorf("%+v", got)
	}
	if s := r.manager.Targets()[0]; s.State != dynwatch.Live || s.Audits != 0 {
		t.Errorf("status %+v", s)
	}
	must(t, r.manager.Apply(nil))
	if _, err := r.manager.Audit(t.Context()); err == nil {
		t.Error("an audit of nothing has an outcome")
	}
}

// One stale answer is no rollback.
func TestOneStaleAnswerIsNoRollback(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	ofHead := func(r *http.Request) bool { return r.URL.Query().Get("limit") == "1" }
	heads := api.refuseTimes(1, ofHead, func(w http.ResponseWriter) {
		_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"90"},"items":[]}`))
	})
	n := len(r.log.all())
	api.cut()
	api.put("a", "same", "")
	r.caughtUp()
	r.wantEvents(n, "modified a/same uid-4 105<104")
	r.wantEpoch(0)
	if heads.Load() == 0 {
		t.Error("no answer was stale")
	}
}

// TestAuditsBesideBusyNamespaces: Namespaces that come and go all the time end each audit before its
// end. The next ones begin after growing pauses.
func TestAuditsBesideBusyNamespaces(t *testing.T) {
	api := newFakeAPI(t, "/a yes", "a/x")
	wanted := things()
	wanted.NamespaceSelector = "on=yes"
	r := start(t, api)
	r.manager.SetAudit(time.Second)
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	r.caughtUp()
	release := make(chan struct{})
	var audits atomic.Int64
	api.before(comparison, func(r *http.Request, n int64) {
		audits.Store(n)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	end := time.After(3 * time.Second)
	for i, busy := 0, true; busy; i++ {
		api.put("", "b", []string{"no", "yes"}[i%2])
		select {
		case <-end:
			busy = false
		case <-time.After(10 * time.Millisecond):
		}
	}
	close(release)
	if n := audits.Load(); n == 0 || n > 25 {
		t.Errorf("%d audits began within 3 s, with a tick of 50 ms", n)
	}
	r.wantAudit(0)
}

// TestAuditOfAnExpiredPosition: what an audit is not sure about is compared at the position only. If etcd has compacted
// that, the audit has no outcome, and nothing is announced.
func TestAuditOfAnExpiredPosition(t *testing.T) {
	api := newFakeAPI(t, "a/x 1")
	r := live(t, api, filtered())
	api.put("a", "x", "1") // held back
	r.caughtUp()
	r.restart(false, things())
	n := len(r.log.all())
	lists := 0
	api.keepRefusing(func(r *http.Request) bool {
		if isExact(r) {
			lists++
		}
		return isExact(r) && lists > 1 // the first one is that of the audit
	}, refusal(410, "Expired", "The resourceVersion for the provided list is too old"))
	if got := r.auditNow(); got.Divergences != 0 || got.Err == nil {
		t.Errorf("%+v", got)
	}
	r.caughtUp()
	r.wantEvents(n)
}
