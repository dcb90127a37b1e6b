package dynwatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// In these tests a target that counts on being told would ask by itself after an
// hour: what happens, a nudge has caused.

// startDefined starts targets on a fake that serves definitions, and waits until
// those are watched.
func startDefined(t *testing.T, api *fakeAPI, wanted ...dynwatch.Resource) *rig {
	t.Helper()
	api.define()
	r := start(t, api, wanted...)
	r.eventually("definitions are watched", api.watched)
	return r
}

// idle waits until discovery is not asked any more.
func (r *rig) idle() {
	r.t.Helper()
	asked, since := -1, time.Now()
	r.eventually("discovery is left alone", func() bool {
		if now := r.api.discoveries(); now != asked {
			asked, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// discoveries is how many discovery documents were asked for.
func (f *fakeAPI) discoveries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if isDiscovery(r) {
			n++
		}
	}
	return n
}

func isDiscovery(path string) bool {
	return !strings.Contains(path, "/things") && !strings.Contains(path, "/kube-system")
}

// serveIn has the fake serve the resource in these versions, the preferred one
// first.
func (f *fakeAPI) serveIn(versions ...string) {
	f.do(func() { f.served, f.versions = len(versions) > 0, versions })
}

func TestWaitingTargetIsTold(t *testing.T) {
	for name, c := range map[string]struct{ path, name string }{
		"custom resource":    {customDefinitions, "things.example.com"},
		"aggregated version": {apiServices, "v1.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.serveIn()
			r := startDefined(t, api, things())
			r.state(dynwatch.Waiting)
			r.idle()
			api.put("a", "x", "")
			api.serveIn("v1")
			r.idle()
			if s := r.manager.Targets()[0]; s.State != dynwatch.Waiting {
				t.Fatalf("state %s before it was told", s.State)
			}
			// Discovery follows what it speaks of a little later.
			answers := []int{503, 404, 404, 503}
			api.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				api.mu.Lock()
				defer api.mu.Unlock()
				if len(answers) == 0 {
					return false
				}
				writeStatus(w, answers[0], map[int]string{503: "ServiceUnavailable", 404: "NotFound"}[answers[0]], "not yet")
				answers = answers[1:]
				return true
			})
			api.touch(c.path, c.name)
			r.caughtUp()
			r.wantEvents(0, "added a/x uid-1 101", "synced 101")
		})
	}
}

// A change of something else wakes nobody.
func TestNudgesAreForThoseConcerned(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn()
	r := startDefined(t, api, things())
	r.state(dynwatch.Waiting)
	r.idle()
	asked := api.discoveries()
	api.touch(customDefinitions, "others.example.com")
	api.touch(customDefinitions, "things.example.com.evil")
	api.touch(apiServices, "v1.other.example.com")
	api.touch(apiServices, "")
	r.idle()
	if n := api.discoveries() - asked; n != 0 {
		t.Errorf("%d discovery documents were asked for", n)
	}
}

// What changes while the watch of definitions is cut, or is not in its history, is
// told all the same.
func TestDefinitionsThatChangeDuringABreak(t *testing.T) {
	for name, breaks := range map[string]func(d *fakeDefinitions){
		"cut":         func(d *fakeDefinitions) { d.generation++ },
		"silent":      func(d *fakeDefinitions) { d.frozen = d.watches },
		"expired":     func(d *fakeDefinitions) { d.generation++; d.oldest = d.rev },
		"rolled back": func(d *fakeDefinitions) { d.generation++; d.rev = 1; d.history[0].rev = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.serveIn()
			api.define()
			r := startHasty(t, api, things())
			r.eventually("definitions are watched", api.watched)
			r.state(dynwatch.Waiting)
			r.idle()
			api.serveIn("v1")
			api.do(func() {
				d := api.definitions
				d.rev++
				d.history = append(d.history, definition{rev: d.rev, path: customDefinitions, name: "things.example.com"})
				breaks(d)
			})
			r.state(dynwatch.Live)
			api.do(func() {
				if api.definitions.full {
					t.Error("more than metadata is listed")
				}
			})
		})
	}
}

// Where definitions cannot be watched, targets ask by themselves; once they can be,
// they are told.
func TestWithoutPermissionToWatchDefinitions(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn()
	api.define()
	api.do(func() { api.definitions.code = 403 })
	r, logs := listen(t, api, things())
	reason := ""
	r.eventually("the reason says why it asks", func() bool {
		reason = r.manager.Targets()[0].Reason
		return strings.Contains(reason, "cannot be watched")
	})
	if !strings.Contains(reason, `no group "example.com"; polled every few seconds, because `) {
		t.Errorf("reason %q", reason)
	}
	asked := api.discoveries()
	r.eventually("it asks again and again", func() bool { return api.discoveries() > asked+20 })
	if n := logs.count("level=INFO"); n != 2 {
		t.Errorf("%d lines at info, want one for each kind of definition", n)
	}
	if n := logs.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one that the target waits", n)
	}

	api.do(func() { api.definitions.code = 0 })
	r.eventually("definitions are watched", api.watched)
	r.idle()
	r.eventually("the reason says no more than it must", func() bool { return !strings.Contains(r.manager.Targets()[0].Reason, "polled every") })
	if n := logs.count("resource definitions watched"); n != 2 {
		t.Errorf("%d lines about the end of it, want 2", n)
	}
	api.serveIn("v1")
	api.touch(customDefinitions, "things.example.com")
	r.state(dynwatch.Live)
}

// TestVersionMoves: the watch goes on in the version that the server prefers, from
// the same revision.
func TestVersionMoves(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := startDefined(t, api, things())
	r.caughtUp()
	r.idle()
	lists := api.requestsWith("limit=500")
	steps := []struct {
		versions []string
		want     string // the version of the watch
	}{
		{[]string{"v1"}, "v1"},
		{[]string{"v1", "v2"}, "v1"}, // served, not preferred
		{[]string{"v2", "v1"}, "v2"},
		{[]string{"v2"}, "v2"},
		{[]string{"v3"}, "v3"},
	}
	for i, s := range steps {
		before := r.manager.Targets()[0]
		cut := !slices.Contains(s.versions, before.Version)
		api.serveIn(s.versions...)
		api.touch(customDefinitions, "things.example.com")
		if cut {
			api.cut() // as the API server does
		}
		r.eventually("version "+s.want, func() bool { return r.manager.Targets()[0].Version == s.want })
		r.idle()
		api.put("a", "x", "")
		r.caughtUp()
		after := r.manager.Targets()[0]
		if moved := after.Watches != before.Watches; moved != (before.Version != s.want) {
			t.Errorf("step %d: %d watches instead of %d", i, after.Watches, before.Watches)
		}
		all := r.log.all()
		if e := all[len(all)-1]; e.Version != s.want {
			t.Errorf("step %d: %s has version %s, want %s", i, e.ID, e.Version, s.want)
		}
	}
	if n := api.requestsWith("limit=500") - lists; n != 0 {
		t.Errorf("%d lists", n)
	}
	if n := len(r.since(2)); n != len(steps) {
		t.Errorf("%d events, want %d: %q", n, len(steps), r.since(2))
	}
	checkStream(t, r.log.all(), api)
}

// A version that discovery speaks of and that does not answer, be it behind a
// conversion that is broken, is not moved to; one that the config names stays.
func TestVersionStays(t *testing.T) {
	for name, c := range map[string]struct {
		fixed string
		dead  bool
	}{"the new one does not answer": {"", true}, "the config names one": {"v1", false}} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			wanted := things()
			wanted.Version = c.fixed
			r := startDefined(t, api, wanted)
			r.caughtUp()
			watches := r.manager.Targets()[0].Watches
			api.keepRefusing(func(r *http.Request) bool {
				return c.dead && strings.Contains(r.URL.Path, "/v2/things")
			}, refusal(500, "InternalError", "conversion webhook failed"))
			api.serveIn("v2", "v1")
			asked := api.discoveries()
			api.touch(apiServices, "v2.example.com")
			r.eventually("it looks", func() bool { return api.discoveries() > asked })
			r.idle()
			api.put("a", "x", "")
			r.caughtUp()
			if s := r.manager.Targets()[0]; s.Version != "v1" || s.Watches != watches {
				t.Errorf("version %s, %d watches instead of %d", s.Version, s.Watches, watches)
			}
		})
	}
}

// An error of discovery is never taken for "not served", however long it lasts.
func TestDiscoveryErrorsEndNothing(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := startDefined(t, api, things())
	r.caughtUp()
	n := len(r.log.all())
	api.do(func() {
		// The aggregator answers for an API server that is down, but for one 404.
		denied := false
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			api.mu.Lock()
			defer api.mu.Unlock()
			if !denied && strings.HasSuffix(r.URL.Path, "/things") { // of the target: the watches of definitions end as well
				denied = true
				writeStatus(w, 404, "NotFound", "no such thing")
			} else {
				writeStatus(w, 503, "ServiceUnavailable", "service unavailable")
			}
			return true
		}
	})
	api.cut()
	asked := api.discoveries()
	r.eventually("it asks in vain", func() bool {
		api.touch(apiServices, "v1.example.com")
		return api.discoveries() > asked+50
	})
	if s := r.manager.Targets()[0]; s.State != dynwatch.Stale || s.Objects != 1 {
		t.Errorf("state %s with %d objects", s.State, s.Objects)
	}
	api.admit()
	r.caughtUp()
	r.wantEvents(n)
}

// TestResourceCreatedAgain: a custom resource that is deleted and created again,
// with objects under the old names, however much of it the watch has seen.
func TestResourceCreatedAgain(t *testing.T) {
	for name, c := range map[string]struct{ unseen, away, down bool }{
		"within a moment":                        {},
		"within a moment, its end unseen":        {unseen: true},
		"after a while, its end unseen":          {unseen: true, away: true},
		"while informd is down":                  {down: true},
		"while informd is down, and then served": {down: true, away: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x", "a/y")
			r := startDefined(t, api, things())
			r.caughtUp()
			if c.down {
				r.stop(true)
			}
			api.do(func() { api.mute = c.unseen })
			api.del("a", "x")
			api.del("a", "y")
			if c.away {
				api.serveIn()
				api.remove(customDefinitions, "things.example.com")
				api.remove(apiServices, "v1.example.com") // as with the last definition of a group
			}
			api.forget()
			if c.down && c.away {
				r.begin(things())
			}
			if c.away {
				r.eventually("the old objects have ended", func() bool {
					return len(slices.DeleteFunc(r.log.all(), func(e event.Event) bool { return e.Op != event.Deleted })) == 2
				})
				api.serveIn("v1")
				api.touch(apiServices, "v1.example.com")
			}
			api.put("a", "x", "")
			api.forget()
			api.do(func() { api.mute = false })
			api.touch(customDefinitions, "things.example.com")
			if c.down && !c.away {
				r.begin(things())
			}
			r.caughtUp()
			told := make(map[string]event.Op)
			for _, e := range r.log.all() {
				told[e.UID] = e.Op
			}
			if told["uid-1"] != event.Deleted || told["uid-2"] != event.Deleted || told["uid-3"] != event.Added {
				t.Errorf("the last of each object: %v", told)
			}
			checkStream(t, r.log.all(), api)
		})
	}
}

// Many targets of one resource share the answers of discovery.
func TestManyTargetsAreNudged(t *testing.T) {
	const targets = 50
	api := newFakeAPI(t)
	api.serveIn()
	wanted := things()
	for i := range targets {
		wanted.Namespaces = append(wanted.Namespaces, fmt.Sprintf("ns-%d", i))
	}
	r := startDefined(t, api, wanted)
	r.idle()
	asked := api.discoveries()
	api.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if isDiscovery(r.URL.Path) {
			<-time.After(300 * time.Millisecond) // as a busy API server
		}
		return false
	})
	api.serveIn("v1")
	api.touch(customDefinitions, "things.example.com")
	r.eventually("all have synced", func() bool { return len(r.log.all()) == targets })
	if n := api.discoveries() - asked; n > targets/3 {
		t.Errorf("%d targets asked for %d documents", targets, n)
	}
}

// What ends after a restart, with nothing left to resolve, is of the version that
// came last.
func TestVersionOfWhatEndsAfterARestart(t *testing.T) {
	api := newFakeAPI(t)
	for i := range 9 {
		api.put("a", fmt.Sprintf("x%d", i), "")
	}
	r := startDefined(t, api, things())
	r.caughtUp()
	api.serveIn("v2", "v1")
	api.touch(apiServices, "v2.example.com")
	r.eventually("version v2", func() bool { return r.manager.Targets()[0].Version == "v2" })
	api.put("a", "y", "")
	r.caughtUp()
	r.stop(false)
	n := len(r.log.all())
	api.serveIn()
	api.remove(customDefinitions, "things.example.com")
	r.begin(things())
	r.eventually("all have ended", func() bool { return len(r.log.all()) == n+11 })
	for _, e := range r.log.all()[n:] {
		if e.Version != "v2" || e.Kind != "Thing" {
			t.Errorf("%s %s: version %s, kind %s", e.Op, e.ID, e.Version, e.Kind)
		}
	}
}

// TestVersionThatIsNotServed: where only the version is gone that the config names,
// the objects are there, and nothing is told of their end.
func TestVersionThatIsNotServed(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	wanted := things()
	wanted.Version = "v1"
	r, n := liveFrom(t, api, wanted)
	api.do(func() { api.versions = []string{"v2"} })
	api.cut()
	r.eventually("waiting", func() bool { return r.manager.Targets()[0].State == dynwatch.Waiting })
	asked := api.requestsWith("/apis/example.com")
	r.eventually("it was looked again and again", func() bool { return api.requestsWith("/apis/example.com") > asked+20 })
	api.do(func() { api.versions = []string{"v2", "v1"} })
	api.put("a", "x", "")
	r.eventually("the change", func() bool { return len(r.log.all()) > n })
	if got := r.log.all()[n:]; len(got) != 1 || got[0].Op != event.Modified {
		t.Errorf("%d events, the first is %s %s", len(got), got[0].Op, got[0].ID)
	}
}
