package dynwatch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// resnapshot asks the only target to announce everything anew.
func (r *rig) resnapshot() dynwatch.ResnapshotResult {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), deadline)
	defer cancel()
	results, err := r.manager.Resnapshot(ctx, "things")
	if err != nil || len(results) != 1 {
		r.t.Fatalf("resnapshot: %v, %+v", err, results)
	}
	return results[0]
}

// checkResnapshot looks at the events from the start of a run to its end: each object
// that exists at the end is announced in between, as it is or changed. It returns how
// many were announced anew.
func checkResnapshot(t *testing.T, events []event.Event, run uint64) (again int) {
	t.Helper()
	begin, end := -1, -1
	for i, e := range events {
		switch {
		case e.Run != run:
		case e.Op == event.Begin:
			begin = i
		case e.Op == event.Synced:
			end = i
		}
	}
	if begin < 0 || end < begin {
		t.Fatalf("run %d begins at %d and ends at %d of\n%s", run, begin, end, strings.Join(lines(events), "\n"))
	}
	known, told := make(map[string]bool), make(map[string]bool)
	for i, e := range events[:end] {
		switch {
		case e.Op.Control():
		case e.Op.Ends():
			delete(known, e.UID)
		default:
			known[e.UID] = true
			told[e.UID] = told[e.UID] || i > begin
		}
		ofRun := e.Run == run && !e.Op.Control()
		if ofRun != (e.Reannounced() && i > begin) || ofRun && !e.Replay {
			t.Errorf("event %d of [%d, %d] is %s", i, begin, end, e.ID)
		}
		if ofRun {
			again++
		}
	}
	for uid := range known {
		if !told[uid] {
			t.Errorf("%s was not announced in run %d", uid, run)
		}
	}
	if events[begin].ResourceVersion > events[end].ResourceVersion || !events[begin].Replay || !events[end].Replay {
		t.Errorf("records %+v and %+v", events[begin], events[end])
	}
	return again
}

func TestResnapshot(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.put("a", "changed", "")
	api.del("a", "deleted")
	r.caughtUp()
	n := len(r.log.all())
	first := r.resnapshot()
	r.wantEvents(n,
		"begin 106", "snapshot a/changed uid-1 105<105 replay", "snapshot a/recreated uid-3 103<103 replay",
		"snapshot a/same uid-4 104<104 replay", "synced 106",
	)
	same(t, dynwatch.ResnapshotResult{Target: "example.com/things", Run: first.Run, Revision: 106, Objects: 3}, first)
	second := r.resnapshot() // in the same second, perhaps
	if second.Run <= first.Run || second.Objects != 3 {
		t.Errorf("%+v after %+v", second, first)
	}
	api.put("a", "changed", "")
	api.del("a", "same")
	r.caughtUp()
	checkStream(t, r.log.all(), api)
	for _, x := range []dynwatch.ResnapshotResult{first, second} {
		if got := checkResnapshot(t, r.log.all(), x.Run); got != 3 {
			t.Errorf("%d objects in run %d", got, x.Run)
		}
	}
	if s := r.manager.Targets()[0]; s.Watches != 1 {
		t.Errorf("status %+v", s)
	}
	// The log is what the next process goes on from.
	r.stop(false)
	n = len(r.log.all())
	r.goLive(things())
	r.wantEvents(n)
}

// The objects are announced as of the position, also those of which the watch has yet to bring a change.
func TestResnapshotIsOfThePosition(t *testing.T) {
	for name, write := range sinceBackup() {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			api.do(func() { api.mute = true })
			write(api)
			x := r.resnapshot()
			if got := checkResnapshot(t, r.log.all(), x.Run); got != 4 || x.Err != nil || x.Revision != 104 {
				t.Errorf("%d objects, %+v", got, x)
			}
			api.do(func() { api.mute = false })
			r.caughtUp()
			checkStream(t, r.log.all(), api)
		})
	}
}

// TestResnapshotBehindTheLog: the process before was killed before its last mark, so that the log has more than the
// list at the position. A consumer drops what has no event until the end. Frames bring nothing of what the log has.
func TestResnapshotBehindTheLog(t *testing.T) {
	for name, write := range map[string]func(api *fakeAPI){
		"a change":      func(api *fakeAPI) { api.put("a", "changed", "") },
		"a birth":       func(api *fakeAPI) { api.put("a", "born", "") },
		"a re-creation": func(api *fakeAPI) { api.del("a", "recreated"); api.put("a", "recreated", "") },
	} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			r.forgetsTheMarksOf(func() { write(api) }, things())
			api.do(func() { api.mute = true })
			r.begin(things())
			r.state(dynwatch.Live)
			n := len(r.log.all())
			end := r.resnapshotLater(n)
			api.do(func() { api.mute = false })
			end(len(api.state()))
		})
	}
}

// Amid writes, cut watches and lists that fail: every object comes, none twice.
func TestResnapshotAmidFaults(t *testing.T) {
	api := newFakeAPI(t)
	api.putMany(1200, "")
	r := live(t, api, things())
	var lists atomic.Int64
	api.keepRefusing(func(r *http.Request) bool {
		if !isPage(r) {
			return false
		}
		n := lists.Add(1) % 7
		if n == 5 {
			api.cut() // the watch ends meanwhile
		}
		return n == 3
	}, refusal(410, "Expired", "The provided continue parameter is too old"))
	stop := api.load(time.Millisecond, func(i int) {
		name := fmt.Sprint("x", i*37%1300)
		if i%3 == 0 {
			api.del("a", name)
		} else {
			api.put("a", name, "")
		}
	})
	var runs []uint64
	for range 3 {
		x := r.resnapshot()
		if x.Err != nil {
			t.Errorf("%+v", x)
		}
		runs = append(runs, x.Run)
	}
	stop()
	r.caughtUp()
	for _, run := range runs {
		if n := checkResnapshot(t, r.log.all(), run); n < 500 {
			t.Errorf("%d objects in run %d", n, run)
		}
	}
	checkStream(t, r.log.all(), api)
}

func TestResnapshotAfterARollback(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.rollBack(102)
	r.untilEpoch(1)
	r.caughtUp()
	n := len(r.log.all())
	x := r.resnapshot()
	var ids []string
	for _, e := range r.log.all()[n:] {
		ids = append(ids, e.ID)
	}
	want := []string{
		fmt.Sprintf("example.com/things:102:begin:r%d:e1", x.Run), fmt.Sprintf("uid-1:101:r%d:e1", x.Run),
		fmt.Sprintf("uid-2:102:r%d:e1", x.Run), fmt.Sprintf("example.com/things:102:synced:r%d:e1", x.Run),
	}
	same(t, want, ids)
}

func TestResnapshotGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		list func(w http.ResponseWriter)
		want string
	}{
		"refused":            {func(w http.ResponseWriter) { writeStatus(w, 403, "Forbidden", "no list today") }, "no list today"},
		"no exact revisions": {func(w http.ResponseWriter) { writeStatus(w, 400, "BadRequest", "no exact revisions") }, "no exact revisions"},
		"an object without a readable identity": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"ThingList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"104"},"items":[{"metadata":{}}]}`)
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			api.keepRefusing(isPage, func(w http.ResponseWriter) { c.list(w) })
			n := len(r.log.all())
			if x := r.resnapshot(); x.Err == nil || !strings.Contains(x.Err.Error(), c.want) || x.Objects != 0 {
				t.Errorf("%+v", x)
			}
			r.wantEvents(n, "begin 104")
			if s := r.manager.Targets()[0]; s.State != dynwatch.Live || s.Watches != 1 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestResnapshotOfACompactedPosition: the watch has brought nothing since etcd has compacted the position.
func TestResnapshotOfACompactedPosition(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.do(func() { api.mute = true })
	api.put("", "another", "") // of another resource
	api.compact()
	end := r.resnapshotLater(len(r.log.all()))
	ticks, last := 0, time.Time{}
	r.eventually("more ticks than a re-snapshot may fail", func() bool {
		if beat := r.manager.Targets()[0].Beat; !beat.Equal(last) {
			ticks, last = ticks+1, beat
		}
		return ticks > 25
	})
	api.do(func() { api.mute = false })
	end(4)
}

func TestResnapshotSaysWhyThereIsNone(t *testing.T) {
	api := newFakeAPI(t)
	api.do(func() { api.served = false })
	pods := dynwatch.Resource{Resource: "things"}
	r := start(t, api, things(), pods)
	for resource, want := range map[string]string{
		"nothings":             `unknown resource; watched resources: ["core/things" "example.com/things"]`,
		"other.com/things":     "unknown resource",
		"example.com/things@a": "unknown resource",
		"":                     "unknown resource",
		"things":               `the name is ambiguous, add the group: ["core/things" "example.com/things"]`,
	} {
		_, err := r.manager.Resnapshot(t.Context(), resource)
		if !errors.Is(err, dynwatch.ErrUnknownResource) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", resource, err)
		}
	}
	results, err := r.manager.Resnapshot(t.Context(), "core/things")
	if err != nil || len(results) != 1 || results[0].Err == nil || !strings.Contains(results[0].Err.Error(), "waiting") {
		t.Errorf("%v, %+v", err, results)
	}
}

// Who waits is told when the target ends.
func TestResnapshotOfATargetThatEnds(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	api.keepRefusing(isPage, refusal(429, "TooManyRequests", "later"))
	n := len(r.log.all())
	outcome := make(chan dynwatch.ResnapshotResult, 1)
	go func() { outcome <- r.resnapshot() }()
	r.eventually("begun", func() bool { return len(r.log.all()) == n+1 })
	must(t, r.manager.Apply(nil))
	if x := <-outcome; x.Err == nil || !strings.Contains(x.Err.Error(), "target stopped") {
		t.Errorf("%+v", x)
	}
}

// resnapshotLater is resnapshot beside the caller, which waits until it has begun, behind the first n events. The end
// is held to so many objects.
func (r *rig) resnapshotLater(n int) (end func(objects int)) {
	r.t.Helper()
	outcome := make(chan dynwatch.ResnapshotResult, 1)
	go func() { outcome <- r.resnapshot() }()
	r.until(n, event.Begin)
	return func(objects int) {
		r.t.Helper()
		if x := <-outcome; x.Err != nil || checkResnapshot(r.t, r.log.all(), x.Run) != objects {
			r.t.Errorf("%+v, events %q", x, r.since(n))
		}
	}
}

// A namespace began with a list that the watch has not reached. Its frames up to there bring nothing.
func TestResnapshotWhileANamespaceIsAhead(t *testing.T) {
	r, n := listAheadOfTheWatch(t)
	end := r.resnapshotLater(n)
	r.api.do(func() { r.api.slow = nil })
	end(2)
}

// TestResnapshotWhileANamespaceLeaves: a namespace no longer matches, and its objects leave once the watch has come so
// far. It matches again before that. A consumer must not have dropped the objects in between.
func TestResnapshotWhileANamespaceLeaves(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/one")
	r := live(t, api, labelled())
	api.do(func() { api.slow = notOfNamespaces })
	lists := api.refuseTimes(forEver, func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/namespaces/team-a/") && !byName(r)
	}, refusal(400, "BadRequest", "no list of a namespace"))
	api.put("", "team-a", "no")
	r.eventually("a list of the namespace", func() bool { return lists.Load() > 0 })
	n := len(r.log.all())
	end := r.resnapshotLater(n)
	<-time.After(100 * time.Millisecond) // for a list that counts
	api.admit()
	api.put("", "team-a", "yes")
	end(1)
}

// A wrong watch cache shows a deleted object, which is not announced, and lacks one that exists: a consumer would
// drop it, so the list does not count.
func TestResnapshotFromAWrongList(t *testing.T) {
	api := fourObjects(t)
	r := live(t, api, things())
	ghost := api.state()["a/deleted"]
	api.del("a", "deleted")
	api.put("a", "changed", "")
	r.caughtUp()
	n := len(r.log.all())
	api.do(func() { api.lists = func(state map[string]change, _ bool) { state["a/deleted"] = ghost } })
	if x := r.resnapshot(); count(r.log.all()[n:], event.Added) != 0 || x.Err != nil || x.Objects != 3 {
		t.Errorf("%+v, events %q", x, r.since(n))
	}
	api.hide("a/same")
	api.before(isPage, func(_ *http.Request, n int64) {
		if n == 2 {
			api.do(func() { api.lists = nil })
		}
	})
	if x := r.resnapshot(); checkResnapshot(t, r.log.all(), x.Run) != 3 || x.Err != nil {
		t.Errorf("%+v, events %q", x, r.since(n))
	}
}

// An object cannot be emitted any more. It exists, and a consumer would drop it with the end of the re-snapshot.
func TestResnapshotOfAnUnreadableObject(t *testing.T) {
	for name, broken := range map[string][2]string{"its state": {`"rev":`, `"rev":x`}, "its uid": {`"uid":"uid-4"`, `"uid":4`}} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			api.do(func() {
				api.mangle = func(s string) string {
					if strings.Contains(s, `"name":"same"`) {
						s = strings.Replace(s, broken[0], broken[1], 1)
					}
					return s
				}
			})
			api.put("a", "same", "")
			r.caughtUp()
			if x := r.resnapshot(); x.Err == nil || !strings.Contains(x.Err.Error(), "dead letters") {
				t.Errorf("%+v", x)
			}
		})
	}
}

// TestResnapshotDuringAnAudit: both note which objects their list has shown. The audit must not look up each object
// that the other list has shown since.
func TestResnapshotDuringAnAudit(t *testing.T) {
	api := newFakeAPI(t)
	api.putMany(600, "")
	r := live(t, api, things())
	reached, goOn := make(chan struct{}), make(chan struct{})
	later := func(r *http.Request) bool { return metadataOnly(r) && r.URL.Query().Get("continue") != "" }
	api.before(later, func(*http.Request, int64) {
		close(reached)
		<-goOn
	})
	lookUps := api.requestsWith("metadata.name%3Dx")
	audited := make(chan dynwatch.AuditResult, 1)
	go func() { audited <- r.auditNow() }()
	<-reached
	outcome := make(chan dynwatch.ResnapshotResult, 1)
	go func() { outcome <- r.resnapshot() }()
	<-time.After(200 * time.Millisecond) // for a re-snapshot that does not wait
	close(goOn)
	if x := <-audited; x.Err != nil || x.Divergences != 0 {
		t.Errorf("audit: %+v", x)
	}
	if x := <-outcome; x.Err != nil || x.Objects != 600 {
		t.Errorf("re-snapshot: %+v", x)
	}
	if n := api.requestsWith("metadata.name%3Dx") - lookUps; n > 0 {
		t.Errorf("%d look-ups", n)
	}
}
