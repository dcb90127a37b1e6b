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

// teams are the things in the namespaces that are named so, but for team-x.
func teams() dynwatch.Resource {
	r := things()
	r.Namespaces, r.ExcludeNamespaces = []string{"team-*"}, []string{"*-x"}
	return r
}

// labelled are the things in the namespaces with the label on=yes, but for team-x.
func labelled() dynwatch.Resource {
	r := teams()
	r.NamespaceSelector = "on=yes"
	return r
}

// thingLines are the lines of a stream that are about things: op and name, sorted
// where the order is not given.
func thingLines(events []event.Event) []string {
	out := []string{}
	for _, e := range events {
		if !e.Op.Control() {
			out = append(out, fmt.Sprintf("%s %s/%s %d", e.Op, e.Namespace, e.Name, e.ResourceVersion))
		}
	}
	return out
}

func TestGlobsMakeOneFilteredTarget(t *testing.T) {
	api := newFakeAPI(t, "team-a/x", "team-x/x", "shop/x", "team-b/x")
	r := live(t, api, teams())
	if s := r.manager.Targets(); len(s) != 1 || s[0].Name != "example.com/things" || s[0].Objects != 2 {
		t.Errorf("targets %+v", s)
	}
	api.put("shop", "x", "")
	api.put("team-a", "x", "")
	api.del("shop", "x")
	api.put("team-new", "x", "")
	api.del("team-b", "x")
	api.del("team-x", "x")
	r.caughtUp()
	r.wantThings(0,
		"snapshot team-a/x 101", "snapshot team-b/x 104",
		"modified team-a/x 106", "added team-new/x 108", "deleted team-b/x 109",
	)
	if n := api.requestsWith("/namespaces/") - api.requestsWith("/namespaces/kube-system"); n != 0 {
		t.Errorf("%d requests for one namespace", n)
	}
	if got := r.auditNow(); got.Objects != 2 || got.Divergences != 0 || got.Err != nil {
		t.Errorf("audit: %+v", got)
	}
}

// What makes up for lost history leaves out the same namespaces, and what cannot be
// read in them is nobody's concern.
func TestReconcileOfAFilteredTarget(t *testing.T) {
	api := newFakeAPI(t, "team-a/x", "shop/x")
	r := live(t, api, teams())
	r.lose(func(api *fakeAPI) {
		api.put("shop", "y", "")
		api.put("team-a", "y", "")
		api.del("team-a", "x")
		api.put("team-x", "z", "")
		api.do(func() {
			api.mangle = func(s string) string { return strings.ReplaceAll(s, `"name":"z"`, `"name":"z","uid":""`) }
		})
	})
	r.caughtUp()
	want := []string{"added team-a/y 104", "deleted team-a/x 105", "snapshot team-a/x 101"}
	same(t, want, sorted(thingLines(r.log.all())))
	if len(r.log.rejected) != 0 {
		t.Errorf("rejected %+v", r.log.rejected)
	}
}

func TestScopes(t *testing.T) {
	tests := map[string]struct {
		change func(*dynwatch.Resource)
		want   []string // targets
		err    string
	}{
		"exact names":       {func(r *dynwatch.Resource) { r.Namespaces = []string{"a", "b"} }, []string{"example.com/things@a", "example.com/things@b"}, ""},
		"exact and a glob":  {func(r *dynwatch.Resource) { r.Namespaces = []string{"a", "b*"} }, []string{"example.com/things"}, ""},
		"an exclude":        {func(r *dynwatch.Resource) { r.ExcludeNamespaces = []string{"a"} }, []string{"example.com/things"}, ""},
		"a selector":        {func(r *dynwatch.Resource) { r.NamespaceSelector = "on" }, []string{"example.com/things"}, ""},
		"forced to one":     {func(r *dynwatch.Resource) { r.Namespaces, r.Scope = []string{"a", "b"}, dynwatch.ScopeCluster }, []string{"example.com/things"}, ""},
		"forced apart":      {func(r *dynwatch.Resource) { r.Namespaces, r.Scope = []string{"a"}, dynwatch.ScopeNamespaced }, []string{"example.com/things@a"}, ""},
		"all apart":         {func(r *dynwatch.Resource) { r.Scope = dynwatch.ScopeNamespaced }, nil, "needs exact names"},
		"globs apart":       {func(r *dynwatch.Resource) { r.Namespaces, r.Scope = []string{"a*"}, dynwatch.ScopeNamespaced }, nil, "needs exact names"},
		"a bad glob":        {func(r *dynwatch.Resource) { r.Namespaces = []string{"a[b"} }, nil, "neither a namespace nor a glob"},
		"a comma":           {func(r *dynwatch.Resource) { r.ExcludeNamespaces = []string{"a,b"} }, nil, "neither a namespace nor a glob"},
		"an empty exclude":  {func(r *dynwatch.Resource) { r.ExcludeNamespaces = []string{""} }, nil, "an empty namespace name"},
		"a bad selector":    {func(r *dynwatch.Resource) { r.NamespaceSelector = "a in" }, nil, "namespace selector"},
		"no scope's name":   {func(r *dynwatch.Resource) { r.Scope = "global" }, nil, `scope "global"`},
		"everything, named": {func(r *dynwatch.Resource) { r.Scope = dynwatch.ScopeCluster }, []string{"example.com/things"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := start(t, newFakeAPI(t))
			wanted := things()
			tt.change(&wanted)
			err := r.manager.Apply([]dynwatch.Resource{wanted})
			var got []string
			for _, s := range r.manager.Targets() {
				got = append(got, s.Name)
			}
			same(t, tt.want, got)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// The same set in another order is the same set.
func TestOrderOfNamespacesIsNoChange(t *testing.T) {
	wanted := teams()
	wanted.Namespaces = []string{"team-*", "shop"}
	r := live(t, newFakeAPI(t), wanted)
	slices.Reverse(wanted.Namespaces)
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	if s := r.manager.Targets()[0]; s.Watches != 1 {
		t.Errorf("%d watches", s.Watches)
	}
}

// What a config edit lets fall out says nothing, and neither does what comes in,
// but for a snapshot.
func TestOtherNamespacesAfterARestart(t *testing.T) {
	api := newFakeAPI(t, "team-a/x", "shop/x")
	r := live(t, api, teams())
	r.stop(false)
	n := len(r.log.all())
	wanted := teams()
	wanted.Namespaces = []string{"shop*"}
	r.begin(wanted)
	r.eventually("the gap", func() bool { return len(r.since(n)) == 2 })
	r.wantEvents(n, "snapshot shop/x uid-2 102 replay", "gap (102,102] selection state")
	same(t, 1, r.manager.Targets()[0].Objects)
}

func TestNamespacesTurn(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "/team-b no", "/team-x yes", "/shop yes")
	for _, ns := range []string{"team-a", "team-b", "team-x", "shop"} {
		api.put(ns, "one", "")
		api.put(ns, "two", "")
	}
	r := live(t, api, labelled())
	step := func(what string, do func(), want ...string) {
		t.Helper()
		n := len(r.log.all())
		do()
		r.eventually(what, func() bool { return len(r.since(n)) >= len(want) })
		r.caughtUp()
		r.wantThings(n, want...)
	}
	r.wantThings(0, "snapshot team-a/one 105", "snapshot team-a/two 106")
	step("team-b comes", func() { api.put("", "team-b", "yes") }, "entered team-b/one 107", "entered team-b/two 108")
	step("changes in it", func() {
		api.put("team-b", "one", "")
		api.put("team-b", "three", "")
		api.del("team-b", "two")
	}, "modified team-b/one 114", "added team-b/three 115", "deleted team-b/two 116")
	step("team-a goes", func() { api.put("", "team-a", "no") }, "left team-a/one 105", "left team-a/two 106")
	step("changes out there", func() {
		api.put("team-a", "one", "")
		api.del("team-a", "two")
		api.put("team-b", "one", "")
	}, "modified team-b/one 120")
	step("team-a comes back", func() { api.put("", "team-a", "yes") }, "entered team-a/one 118")
	step("other changes of a namespace", func() { api.put("", "team-a", "yes"); api.put("team-a", "one", "") }, "modified team-a/one 123")
	step("a new namespace", func() {
		api.put("", "team-c", "yes")
		r.eventually("the checkpoint", func() bool {
			return strings.Contains(string(r.log.marksNow()["example.com/things"]), `"namespacesAt":124`)
		})
		api.put("team-c", "one", "")
	}, "added team-c/one 125")
	step("a namespace is deleted", func() {
		api.del("team-b", "one")
		api.del("team-b", "three")
		api.del("", "team-b")
	}, "deleted team-b/one 126", "deleted team-b/three 127")
	step("excluded, whatever its labels", func() { api.put("", "team-x", "no"); api.put("", "team-x", "yes"); api.put("team-a", "one", "") }, "modified team-a/one 131")

	ids := func(key string) (all []string) {
		for _, e := range r.log.all() {
			if e.Namespace+"/"+e.Name == key {
				id, _, _ := event.ParseID(e.ID)
				all = append(all, fmt.Sprintf("%s %d", id, e.Ordinal))
			}
		}
		return all
	}
	want := []string{"uid-5:105 1", "uid-5:105:left:117 2", "uid-5:118:entered:121 3", "uid-5:123 4", "uid-5:131 5"}
	same(t, want, ids("team-a/one"))
	r.wantAudit(0)
	left := slices.DeleteFunc(r.log.all(), func(e event.Event) bool { return e.Op != event.Left })
	if !strings.Contains(string(left[0].Data), `"rev":105`) {
		t.Errorf("what left carries %s", left[0].Data)
	}
}

// What the stream has yet to bring of a namespace when it stops to match comes
// before what is left of it leaves.
func TestDepartureWaitsForTheStream(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/one", "team-a/two", "team-a/three")
	r, n := liveFrom(t, api, labelled())
	api.do(func() {
		// The watch of the things is slower than that of the Namespaces.
		api.slow = notOfNamespaces
	})
	api.put("team-a", "one", "")
	api.put("team-a", "brief", "")
	api.del("team-a", "brief")
	api.del("team-a", "two")
	api.put("", "team-a", "no")
	r.eventually("three left", func() bool { return len(r.since(n)) == 1 })
	api.put("team-a", "one", "")
	api.do(func() { api.slow = nil })
	r.caughtUp()
	r.wantThings(n,
		"left team-a/three 104", "modified team-a/one 105", "added team-a/brief 106", "deleted team-a/brief 107",
		"deleted team-a/two 108", "left team-a/one 105",
	)
}

func TestNamespacesThatMayNotBeListed(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "team-a/one")
	api.refuseNamespaces(403, forEver)
	r := start(t, api, labelled())
	if s := r.state(dynwatch.Forbidden); !strings.Contains(s.Reason, "namespaceSelector: namespaces are unreadable: list: ") {
		t.Errorf("reason %q", s.Reason)
	}
	api.admit()
	r.caughtUp()
	r.wantThings(0, "snapshot team-a/one 102")
}

func TestWaitingForNamespaces(t *testing.T) {
	api := newFakeAPI(t)
	release := make(chan struct{})
	api.before(ofNamespaces, func(*http.Request, int64) { <-release })
	r := start(t, api, labelled())
	if s := r.state(dynwatch.Syncing); s.Reason != "waiting for the first list of namespaces" {
		t.Errorf("reason %q", s.Reason)
	}
	close(release)
	r.caughtUp()
}

// There is one watch of the Namespaces for all targets, none without need, and a new
// one when there is need again.
func TestOneWatchOfNamespaces(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes")
	api.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		r.URL.Path = strings.Replace(r.URL.Path, "/other.com", "/example.com", 1)
		return false
	})
	r := live(t, api, teams())
	watches := func() int { return api.requestsWith(namespacesPath + "?allowWatchBookmarks") }
	if n := api.requestsWith(namespacesPath + "?"); n != 0 {
		t.Errorf("%d requests for Namespaces that nobody needs", n)
	}
	other := labelled()
	other.Group = "other.com"
	for round := range 2 {
		must(t, r.manager.Apply([]dynwatch.Resource{labelled(), other}))
		for i := range 2 {
			r.eventually("live", func() bool { return r.manager.Targets()[i].State == dynwatch.Live })
		}
		r.eventually("a watch of Namespaces", func() bool { return watches() > round })
		name := fmt.Sprint("team-", round)
		api.put("", name, "yes")
		api.put(name, "one", "")
		n := 2 * (round + 1)
		r.eventually("both know it", func() bool { return len(thingLines(r.log.all())) == n })
		if got := watches(); got != round+1 {
			t.Errorf("%d watches of Namespaces", got)
		}
		must(t, r.manager.Apply([]dynwatch.Resource{teams()}))
	}
}

// What flipped while informd was down comes out as if it had been watched, but for a gap.
func TestNamespacesTurnDuringDowntime(t *testing.T) {
	for name, kill := range map[string]bool{"stopped": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a yes", "team-a/one", "/team-b no", "team-b/one", "/team-c yes", "team-c/one")
			r := live(t, api, labelled())
			r.eventually("marked", func() bool { return len(r.log.marksNow()) == 1 })
			r.stop(kill)
			n := len(r.log.all())
			api.put("", "team-a", "no")
			api.put("", "team-b", "yes")
			api.put("team-c", "one", "")
			api.del("team-c", "one")
			api.del("", "team-c")
			r.begin(labelled())
			r.eventually("four events", func() bool { return len(r.since(n)) >= 4 })
			r.caughtUp()
			want := []string{"deleted team-c/one 110", "entered team-b/one 104", "left team-a/one 102", "modified team-c/one 109"}
			same(t, want, sorted(thingLines(r.log.all()[n:])))
			same(t, []string{"selection state"}, r.gapsSince(n))
			r.settled()
			n = len(r.log.all())
			r.restart(kill, labelled())
			r.wantEvents(n)
		})
	}
}

// Namespaces flip while informd is down, for longer than etcd keeps revisions.
func TestNamespacesTurnLongBeforeARestart(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "/team-b no", "team-a/one", "team-b/one")
	r := live(t, api, labelled())
	r.stop(false)
	n := len(r.log.all())
	api.put("", "team-a", "no")
	api.put("", "team-b", "yes")
	api.compact()
	r.begin(labelled())
	want := []string{"entered team-b/one uid-4 104 replay", "gap (104,106] selection state", "left team-a/one uid-3 103<103"}
	r.eventually("all of it", func() bool { return len(r.since(n)) >= len(want) })
	r.caughtUp()
	r.wantEvents(n, want...)
	same(t, 1, r.manager.Targets()[0].Objects)
}

// etcd has forgotten the revision of the position: what there is now enters, with a gap.
func TestArrivalAfterCompaction(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "/team-b yes", "team-a/one", "team-b/one")
	r, n := liveFrom(t, api, labelled())
	api.do(func() { api.slow = notOfNamespaces })
	api.put("team-a", "two", "")
	api.put("team-a", "one", "")
	api.del("team-a", "two")
	api.put("", "team-a", "yes")
	api.compact()
	r.eventually("entered", func() bool { return count(r.log.all()[n:], event.Entered) == 1 })
	api.put("team-a", "one", "")
	api.do(func() { api.slow = nil })
	r.caughtUp()
	r.wantThings(n, "entered team-a/one 106", "modified team-a/one 109")
	same(t, []string{"selection state"}, r.gapsSince(n))
}

// A list of a namespace that takes too long is begun anew; the watch goes on.
func TestArrivalThatExpires(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "team-a/one")
	r := live(t, api, labelled())
	api.refuseTimes(3, func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/namespaces/team-a/")
	}, refusal(410, "Expired", "The provided continue parameter is too old"))
	n := len(r.log.all())
	api.put("", "team-a", "yes")
	r.until(n, event.Entered)
	r.caughtUp()
	r.wantThings(n, "entered team-a/one 102")
	if gaps := count(r.log.all()[n:], event.Gap); gaps > 1 {
		t.Errorf("%d gaps: %q", gaps, r.since(n))
	}
}

// The labels of Namespaces are older after the restore, also behind a raised revision.
func TestNamespacesAfterARollback(t *testing.T) {
	for name, c := range map[string]struct {
		restore func(api *fakeAPI)
		shows   bool // the things show it
	}{
		"to an older revision":   {func(api *fakeAPI) { api.rollBack(104) }, true},
		"with a raised revision": {func(api *fakeAPI) { api.restoreCompacted(104, 100_000) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "/team-a no", "/team-b yes", "team-a/one", "team-b/one")
			r := live(t, api, labelled())
			matches := func() bool { return len(wrong(r.log.all(), api, false)) == 0 }
			api.put("", "team-a", "yes")
			api.put("", "team-b", "no")
			r.eventually("team-a is in", matches)
			r.caughtUp()
			api.put("team-a", "one", "")
			r.caughtUp()
			c.restore(api)
			r.eventually("team-b is in", matches)
			if c.shows {
				r.untilEpoch(1)
			}
			r.caughtUp()
			api.put("", "team-a", "yes")
			r.eventually("both are in", matches)
			r.caughtUp()
		})
	}
}

func TestNamespacesOfAClusterScopedResource(t *testing.T) {
	api := newFakeAPI(t)
	ofResources := func(r *http.Request) bool { return r.URL.Path == "/apis/example.com/v1" }
	api.keepRefusing(ofResources, func(w http.ResponseWriter) {
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[{"name":"things","kind":"Thing","verbs":["list","watch"]}]}`)
	})
	r := start(t, api, labelled())
	want := "cannot be watched: the resource is cluster-scoped; remove namespaces, excludeNamespaces and namespaceSelector from its entry"
	if s := r.state(dynwatch.Degraded); s.Reason != want {
		t.Errorf("reason %q", s.Reason)
	}
}

// Another selector is another selection: an edit of the config says nothing of what
// falls out.
func TestOtherNamespaceSelector(t *testing.T) {
	api := newFakeAPI(t, "/team-a yes", "/team-b no", "team-a/one", "team-b/one")
	r, n := liveFrom(t, api, labelled())
	wanted := labelled()
	wanted.NamespaceSelector = "on=no"
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	r.eventually("the gap", func() bool { return len(r.since(n)) == 2 })
	r.wantEvents(n, "snapshot team-b/one uid-4 104 replay", "gap (104,104] selection state")
	api.put("team-a", "one", "")
	r.caughtUp()
	if got := r.since(n); len(got) != 2 {
		t.Errorf("team-a is told of: %q", got)
	}
}

// TestUnreadableNamespace: what a list shows without a readable namespace may be any object, so that
// nothing counts as missing from the list.
func TestUnreadableNamespace(t *testing.T) {
	cases := map[string]struct {
		wanted   dynwatch.Resource
		metadata string
	}{
		"nothing is readable":  {teams(), "7"},
		"the name is readable": {teams(), `{"name":"broken","namespace":7,"uid":"uid-1","resourceVersion":"101"}`},
		"so without a filter":  {things(), `{"name":"broken","namespace":7,"uid":"uid-1","resourceVersion":"101"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "team-a/broken", "team-a/gone")
			r, n := liveFrom(t, api, c.wanted)
			broken := func(s string) string {
				if strings.Contains(s, `"name":"broken"`) {
					return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":` + c.metadata + `}`
				}
				return s
			}
			r.lose(func(api *fakeAPI) {
				api.del("team-a", "gone")
				api.put("team-a", "new", "")
				api.do(func() { api.mangle = broken })
			})
			r.eventually("the target says what is wrong", func() bool {
				s := r.manager.Targets()[0]
				return s.State != dynwatch.Live && s.Reason != "" || len(r.log.all()) > n
			})
			<-time.After(outage / 2)
			for _, e := range r.log.all() {
				if e.Name == "broken" && e.Op.Ends() {
					t.Errorf("%s %s, but the object exists", e.Op, e.ID)
				}
			}
			api.do(func() { api.mangle = nil })
			r.caughtUp()
			r.consistent()
		})
	}
}
