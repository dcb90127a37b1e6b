package dynwatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// outage is how long the unit tests' proxies answer 404: many times the time after which
// a removed resource ends there.
const outage = 600 * time.Millisecond

// answer is what a proxy answers for a path.
type answer func(w http.ResponseWriter, r *http.Request)

func textAnswer(code int, contentType, body string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// behindProxy has a proxy before the fake API server: requests for paths that it has an answer for do not reach the API
// server. It ends with nil.
func (f *fakeAPI) behindProxy(answers func(path string) answer) {
	f.do(func() {
		f.proxy = func(w http.ResponseWriter, r *http.Request) bool {
			if answers == nil {
				return false
			}
			a := answers(r.URL.Path)
			if a != nil {
				a(w, r)
			}
			return a != nil
		}
	})
}

// quietFor waits, and fails when an event follows the first n.
func (r *rig) quietFor(d time.Duration, n int) {
	r.t.Helper()
	began := time.Now()
	r.eventually("nothing happens", func() bool {
		if got := r.since(n); len(got) > 0 {
			r.t.Fatalf("events: %q", got)
		}
		return time.Since(began) > d
	})
}

// TestAnswersOfAProxyDeleteNothing: a proxy answers in place of the API server, for
// everything or for a part, and no event follows from it. Changes that happened meanwhile
// arrive.
func TestAnswersOfAProxyDeleteNothing(t *testing.T) {
	everything := func(string) bool { return true }
	ofGroup := func(path string) bool { return strings.HasPrefix(path, "/apis/example.com") }
	ofObjects := func(path string) bool { return strings.HasSuffix(path, "/things") }
	html := textAnswer(404, "text/html", "<html><body>404 page not found</body></html>")
	status := func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, 404, "NotFound", "no such thing") }
	cases := map[string]struct {
		paths  func(string) bool
		answer answer
		// empty: no object is known.
		empty bool
	}{
		"text for everything":             {paths: everything, answer: textAnswer(404, "text/plain", "404 page not found\n")},
		"HTML for everything":             {paths: everything, answer: html},
		"a Status for everything":         {paths: everything, answer: status},
		"HTML for everything, no objects": {paths: everything, answer: html, empty: true},
		"HTML for the group":              {paths: ofGroup, answer: html},
		"a Status for the group":          {paths: ofGroup, answer: status},
		"HTML for the group, no objects":  {paths: ofGroup, answer: html, empty: true},
		"HTML for the objects":            {paths: ofObjects, answer: html},
		"200 without content":             {paths: everything, answer: textAnswer(200, "application/json", "")},
		"200 with an empty object":        {paths: everything, answer: textAnswer(200, "application/json", "{}")},
		"200 with an object":              {paths: ofObjects, answer: textAnswer(200, "application/json", `{"kind":"Thing","metadata":{"name":"x","resourceVersion":"900"}}`)},
		"200 with a list, no revision":    {paths: ofObjects, answer: textAnswer(200, "application/json", `{"kind":"ThingList","metadata":{}}`)},
		"200 with a list of resources":    {paths: ofObjects, answer: textAnswer(200, "application/json", `{"kind":"APIResourceList","resources":[]}`)},
		"200 with HTML":                   {paths: everything, answer: textAnswer(200, "text/html", "<html></html>")},
		"an empty list of groups, and 404 for the definitions": {paths: everything, answer: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/apis" {
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","groups":[]}`)
				return
			}
			status(w, r)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newFakeAPI(t)
			api.define()
			if !c.empty {
				api.put("a", "x", "")
				api.put("a", "y", "")
			}
			r, n := liveFrom(t, api, things())
			api.behindProxy(func(path string) answer {
				if c.paths(path) {
					return c.answer
				}
				return nil
			})
			api.cut()
			r.eventually("not live", func() bool { return r.manager.Targets()[0].State != dynwatch.Live })
			r.quietFor(outage, n)
			if s := r.manager.Targets()[0]; s.State == dynwatch.Live || !s.Synced || s.Reason == "" {
				t.Errorf("state %s, synced %t, reason %q", s.State, s.Synced, s.Reason)
			}
			want := []string{"added a/z uid-1 101"}
			if !c.empty {
				api.put("a", "x", "")
				api.del("a", "y")
				want = []string{"modified a/x uid-1 103<101", "deleted a/y uid-2 104<102", "added a/z uid-3 105"}
			}
			api.put("a", "z", "")
			api.behindProxy(nil)
			r.caughtUp()
			r.wantEvents(n, want...)
		})
	}
}

// TestFirstListAfterA404: informd starts while a proxy answers 404. What existed before is
// in the snapshot then.
func TestFirstListAfterA404(t *testing.T) {
	api := newFakeAPI(t)
	api.define()
	api.put("a", "x", "")
	api.behindProxy(func(string) answer { return textAnswer(404, "text/plain", "404 page not found\n") })
	r := start(t, api, things())
	r.state(dynwatch.Waiting)
	r.quietFor(outage/2, 0)
	if s := r.manager.Targets()[0]; s.Looked {
		t.Errorf("a 404 counts as knowledge of the resource: %s", s.Reason)
	}
	api.behindProxy(nil)
	r.caughtUp()
	r.wantEvents(0, "snapshot a/x uid-1 101", "synced 101")
}

// TestAuthorities: API discovery does not list the resource, and it depends on others
// whether its objects count as deleted.
func TestAuthorities(t *testing.T) {
	forbid := func(f *fakeAPI) { f.do(func() { f.definitions.code = 403 }) }
	cases := map[string]struct {
		change func(f *fakeAPI)
		// reason is part of the target's reason while the objects are kept; if it is empty
		// they end.
		reason string
	}{
		"its definition exists": {func(*fakeAPI) {}, "the CustomResourceDefinition of the resource exists"},
		"its definition is gone": {func(f *fakeAPI) {
			f.remove(customDefinitions, "things.example.com")
		}, ""},
		"definitions cannot be read for an error": {func(f *fakeAPI) {
			f.do(func() { f.definitions.code = 503 })
		}, "the CustomResourceDefinition of the resource is unreadable"},
		"definitions must not be read": {forbid, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newFakeAPI(t)
			api.define()
			api.put("a", "x", "")
			r := start(t, api, things())
			r.eventually("definitions are watched", api.watched)
			r.caughtUp()
			n := len(r.log.all())
			c.change(api)
			api.serveIn()
			api.cut()
			if c.reason == "" {
				r.gone(n, 2)
				if got := r.since(n); len(got) != 2 || !strings.HasPrefix(got[0], "deleted a/x uid-1 ") {
					t.Errorf("events: %q", got)
				}
				return
			}
			r.eventually("the reason says it", func() bool { return strings.Contains(r.manager.Targets()[0].Reason, c.reason) })
			r.quietFor(outage, n)
			api.put("a", "x", "")
			api.do(func() { api.definitions.code = 0 })
			api.serveIn("v1")
			r.caughtUp()
			r.wantEvents(n, "modified a/x uid-1 102<101")
		})
	}
}

// TestRevisionOfARemovalComesLater: the first authority that agrees with a removal names no
// revision. One that does so later has the last word about the end of the gap.
func TestRevisionOfARemovalComesLater(t *testing.T) {
	api := newFakeAPI(t)
	api.define()
	api.put("a", "x", "")
	r := newRig(t, api)
	r.withdrawn = time.Hour
	r.begin(things())
	r.eventually("definitions are watched", api.watched)
	r.caughtUp()
	n := len(r.log.all())
	api.do(func() { api.definitions.rev = 500 })
	api.remove(customDefinitions, "things.example.com")
	api.do(func() { api.definitions.code = 403 })
	api.serveIn()
	api.cut()
	r.eventually("another connection agrees", func() bool { return strings.Contains(r.manager.Targets()[0].Reason, "as deleted at 20") })
	api.do(func() { api.definitions.code = 0 })
	r.gone(n, 2)
	r.wantEvents(n, "deleted a/x uid-1 501<101 replay", "gap (101,501] unserved state")
}

// TestAggregatedResourceReturns: an operator's upgrade removes an APIService and creates it
// again. The time that it may take is not over, or another APIService of the group exists.
func TestAggregatedResourceReturns(t *testing.T) {
	for name, exists := range map[string]bool{"in time": false, "late, and its APIService exists": true} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.define()
			api.remove(customDefinitions, "things.example.com")
			api.put("a", "x", "")
			r := newRig(t, api)
			r.withdrawn = time.Hour
			if exists {
				r.withdrawn = 100 * time.Millisecond
			}
			r.goLive(things())
			n := len(r.log.all())
			if !exists {
				api.remove(apiServices, "v1.example.com")
			}
			api.serveIn()
			api.cut()
			r.eventually("it waits", func() bool {
				s := r.manager.Targets()[0]
				return s.State == dynwatch.Waiting && strings.Contains(s.Reason, map[bool]string{true: "APIService v1.example.com exists", false: "as deleted at 20"}[exists])
			})
			r.quietFor(outage/2, n)
			api.put("a", "x", "")
			api.touch(apiServices, "v1.example.com")
			api.serveIn("v1")
			r.caughtUp()
			r.wantEvents(n, "modified a/x uid-1 102<101")
		})
	}
}

// TestOneOfTwoAPIServersLacksTheGroup: an upgrade of the control plane. New connections reach
// the API servers in turn, the one that informd has stays with the one that lacks the group.
func TestOneOfTwoAPIServersLacksTheGroup(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	connections := make(map[string]bool)
	lock := make(chan struct{}, 1)
	lacking := func(r *http.Request) bool {
		lock <- struct{}{}
		defer func() { <-lock }()
		lacks, known := connections[r.RemoteAddr]
		if !known {
			lacks = len(connections)%2 == 0
			connections[r.RemoteAddr] = lacks
		}
		return lacks
	}
	r, n := liveFrom(t, api, things())
	api.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !lacking(r) {
			return false
		}
		if r.URL.Path == "/apis" {
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		} else {
			writeStatus(w, 404, "NotFound", "no such group")
		}
		return true
	})
	api.cut()
	r.quietFor(outage, n)
	api.put("a", "x", "")
	api.admit()
	r.caughtUp()
	r.wantEvents(n, "modified a/x uid-1 102<101")
}

// TestObjectsThatReturn: a resource counts as removed, by mistake, and returns with the same
// objects. A consumer that drops repeated ids has the right state then.
func TestObjectsThatReturn(t *testing.T) {
	for name, c := range map[string]struct {
		restart bool
		// other objects exist when it returns.
		others bool
	}{"the same": {}, "the same over a restart": {restart: true}, "others": {others: true}, "others over a restart": {restart: true, others: true}} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x", "a/y")
			r, n := liveFrom(t, api, things())
			api.do(func() { api.served = false; api.generation++ })
			r.gone(n, 3)
			if c.restart {
				r.stop(false)
			}
			if c.others {
				api.del("a", "x")
				api.del("a", "y")
				api.put("a", "x", "")
			} else {
				api.put("a", "y", "")
				api.put("a", "b", "")
			}
			api.do(func() { api.served = true })
			if c.restart {
				r.begin(things())
			}
			r.eventually("synced", func() bool { s := r.manager.Targets()[0]; return s.Synced && s.State == dynwatch.Live })
			api.put("a", "x", "")
			api.del("a", "x")
			r.caughtUp()
			r.consistent()
			want := []string{
				"added a/b uid-3 104", "gap (103,104] unserved state", "added a/x uid-1 101", "added a/y uid-2 103", "synced 104",
				"modified a/x uid-1 105<101", "deleted a/x uid-1 106<105",
			}
			epoch := uint64(1)
			if c.others {
				want, epoch = []string{"added a/x uid-3 105", "synced 105", "modified a/x uid-3 106<105", "deleted a/x uid-3 107<106"}, 0
			}
			r.wantEvents(n+3, want...)
			r.wantEpoch(epoch)
		})
	}
}

// TestObjectsThatReturnUnderAWildcard: the wildcard ends the target of a removed resource,
// and starts another one when the resource returns.
func TestObjectsThatReturnUnderAWildcard(t *testing.T) {
	api := newFakeAPI(t)
	api.define()
	api.serveAll(group("example.com", resource("things", "Thing")), group("other.example.com", resource("others", "Other")))
	api.put("a", "x", "")
	r := start(t, api, dynwatch.Resource{Group: "*", Resource: "*"})
	live := func(names int) func() bool {
		return func() bool {
			all := r.manager.Targets()
			for _, s := range all {
				if s.State != dynwatch.Live {
					return false
				}
			}
			return len(all) == names
		}
	}
	r.eventually("both live", live(2))
	api.do(func() { api.generation++ })
	groups := api.groups.groups
	api.do(func() { api.groups.groups = groups[1:]; api.generation++ })
	api.remove(customDefinitions, "things.example.com")
	r.eventually("the target ends", live(1))
	api.do(func() { api.groups.groups = groups })
	api.touch(customDefinitions, "things.example.com")
	r.eventually("both live again", live(2))
	api.put("a", "x", "")
	api.del("a", "x")
	r.eventually("the end", func() bool {
		all := r.log.all()
		return all[len(all)-1].Op == event.Deleted && all[len(all)-1].ResourceVersion == 103
	})
	r.consistent()
}
