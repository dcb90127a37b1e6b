package dynwatch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// usual is a small cluster, with Events in two groups.
func usual() []fakeGroup {
	events := fakeResource{name: "events", kind: "Event"}
	return []fakeGroup{
		group("", resource("pods", "Pod"), resource("secrets", "Secret"), events, fakeResource{name: "nodes", kind: "Node", cluster: true},
			fakeResource{name: "bindings", kind: "Binding", verbs: "create"}, fakeResource{name: "services", kind: "Service"}),
		{"apps", []fakeVersion{
			{"v1", []fakeResource{resource("deployments", "Deployment")}},
			{"v1beta1", []fakeResource{resource("deployments", "Deployment"), resource("olds", "Old")}},
		}},
		group("events.k8s.io", events),
		group("example.com", resource("things", "Thing"), fakeResource{name: "services", kind: "Service"}),
		group("metrics.example.com", fakeResource{name: "loads", kind: "Load", verbs: "get list"}, resource("rates", "Rate")),
	}
}

func everything(excluded ...string) dynwatch.Resource {
	return dynwatch.Resource{Group: "*", Resource: "*", ExcludeResources: excluded}
}

// newWildAPI is a fake with several groups, and startWild starts targets on one.
func newWildAPI(t *testing.T, groups ...fakeGroup) *fakeAPI {
	t.Helper()
	api := newFakeAPI(t)
	api.serveAll(groups...)
	return api
}

func startWild(t *testing.T, groups []fakeGroup, wanted ...dynwatch.Resource) *rig {
	t.Helper()
	return startDefined(t, newWildAPI(t, groups...), wanted...)
}

// withToys are the usual groups up to example.com, which has others than things.
func withToys(others ...fakeResource) []fakeGroup {
	groups := usual()
	groups[3] = group("example.com", append([]fakeResource{resource("toys", "Toy")}, others...)...)
	return groups[:4]
}

// names are those of the targets.
func (r *rig) names() []string {
	var all []string
	for _, s := range r.manager.Targets() {
		all = append(all, s.Name)
	}
	return all
}

// targets waits until these are the targets, all of them live.
func (r *rig) targets(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	r.eventually(fmt.Sprintf("targets %q", want), func() bool {
		return slices.Equal(r.names(), want) && !slices.ContainsFunc(r.manager.Targets(), func(s dynwatch.TargetStatus) bool { return s.State != dynwatch.Live })
	})
}

func TestWildcardMatches(t *testing.T) {
	all := []string{
		"apps/deployments", "apps/olds", "core/events", "core/nodes", "core/pods", "core/secrets", "core/services", "example.com/services",
		"example.com/things", "metrics.example.com/rates",
	}
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
	}
	entry := func(group, resource string) dynwatch.Resource {
		return dynwatch.Resource{Group: group, Resource: resource}
	}
	version := entry("apps", "*")
	version.Version = "v1beta1"
	inShop := everything()
	inShop.Namespaces = []string{"shop"}
	inShop.ExcludeResources = []string{"s*", "*.example.com/*", "apps/*"}
	for name, c := range map[string]struct {
		wanted []dynwatch.Resource
		want   []string
	}{
		"everything":                      {[]dynwatch.Resource{everything()}, all},
		"one group":                       {[]dynwatch.Resource{entry("apps", "*")}, []string{"apps/deployments", "apps/olds"}},
		"one version":                     {[]dynwatch.Resource{version}, []string{"apps/deployments", "apps/olds"}},
		"the core group":                  {[]dynwatch.Resource{entry("", "*")}, []string{"core/events", "core/nodes", "core/pods", "core/secrets", "core/services"}},
		"groups below a domain":           {[]dynwatch.Resource{entry("*.example.com", "*")}, []string{"metrics.example.com/rates"}},
		"a name in every group":           {[]dynwatch.Resource{entry("*", "services")}, []string{"core/services", "example.com/services"}},
		"the other name of Events":        {[]dynwatch.Resource{entry("*.k8s.io", "*")}, []string{"events.k8s.io/events"}},
		"excluded names":                  {[]dynwatch.Resource{everything("secrets", "ol?s")}, without("core/secrets", "apps/olds")},
		"excluded in one group":           {[]dynwatch.Resource{everything("core/services", "*.com/things")}, without("core/services", "example.com/things")},
		"excluded by another name":        {[]dynwatch.Resource{everything("events.k8s.io/*")}, without("core/events")},
		"an entry of its own":             {[]dynwatch.Resource{everything(), things()}, all},
		"an entry for another name":       {[]dynwatch.Resource{everything(), entry("events.k8s.io", "events")}, append(without("core/events"), "events.k8s.io/events")},
		"what the first one excludes":     {[]dynwatch.Resource{everything("pods"), entry("", "p*")}, all},
		"namespaces leave out the others": {[]dynwatch.Resource{inShop}, []string{"core/events@shop", "core/pods@shop", "example.com/things@shop"}},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, plain discovery %t", name, plain), func(t *testing.T) {
				api := newWildAPI(t, usual()...)
				api.do(func() { api.groups.plain = plain })
				want := slices.Clone(c.want)
				if name == "namespaces leave out the others" {
					want = slices.DeleteFunc(want, func(name string) bool { return strings.HasPrefix(name, "example.com") })
					c.wanted[0].ExcludeResources = append(c.wanted[0].ExcludeResources, "example.com/*")
				}
				r := startDefined(t, api, c.wanted...)
				r.targets(want...)
			})
		}
	}
}

// Of two wildcards that match a resource the first one has it.
func TestFirstWildcardWins(t *testing.T) {
	meta := dynwatch.Resource{Group: "apps", Resource: "*", Mode: dynwatch.Metadata}
	for name, c := range map[string]struct {
		wanted []dynwatch.Resource
		want   dynwatch.Mode
	}{
		"first": {[]dynwatch.Resource{meta, everything()}, dynwatch.Metadata},
		"later": {[]dynwatch.Resource{everything(), meta}, dynwatch.Full},
	} {
		t.Run(name, func(t *testing.T) {
			r := startWild(t, usual(), c.wanted...)
			r.eventually("expanded", func() bool { return len(r.names()) >= 10 })
			for _, s := range r.manager.Targets() {
				if s.Group == "apps" && s.Resource == "deployments" && s.Mode != c.want {
					t.Errorf("%s has mode %s, want %s", s.Name, s.Mode, c.want)
				}
			}
		})
	}
}

// What comes later starts, what goes ends once its deletions are out, and what has
// an entry of its own, or nothing to do with it, is not touched.
func TestWildcardFollowsWhatIsServed(t *testing.T) {
	api := newWildAPI(t, withToys()...)
	own := dynwatch.Resource{Resource: "pods"}
	r := startDefined(t, api, own, dynwatch.Resource{Group: "*", Resource: "t*"})
	r.targets("core/pods", "example.com/toys")
	api.put("a", "x", "")
	api.install("example.com", resource("things", "Thing"))
	r.targets("core/pods", "example.com/things", "example.com/toys")
	api.put("a", "y", "")
	r.eventually("synced", func() bool { return len(r.since(0)) == 5 })
	ours := func() (all []string) {
		for _, e := range r.log.all() {
			if e.Resource == "things" && !e.Op.Control() {
				all = append(all, lines([]event.Event{e})...)
			}
		}
		return all
	}
	same(t, []string{"added a/x uid-1 101", "added a/y uid-2 102"}, ours())
	api.uninstall("example.com", "things")
	r.eventually("deleted", func() bool { return len(ours()) == 4 })
	api.cut()
	r.targets("core/pods", "example.com/toys")
	if got := ours(); len(got) != 4 || !strings.HasPrefix(got[2], "deleted") || !strings.HasPrefix(got[3], "deleted") {
		t.Errorf("events %q", got)
	}
	api.put("a", "z", "")
	api.install("example.com", resource("things", "Thing"))
	r.targets("core/pods", "example.com/things", "example.com/toys")
	r.eventually("added", func() bool { got := ours(); return len(got) == 5 && strings.HasPrefix(got[4], "added a/z uid-3 105") })
	for _, s := range r.manager.Targets() {
		if s.Name == "core/pods" && s.Watches != 1 && s.Failures > 3 {
			t.Errorf("the entry of its own was disturbed: %+v", s)
		}
	}
}

// Over a restart what was there at the first look is known, and so is what was
// watched and went meanwhile.
func TestWildcardOverARestart(t *testing.T) {
	for name, kill := range map[string]bool{"stop": false, "kill": true} {
		t.Run(name, func(t *testing.T) {
			api := newWildAPI(t, withToys()...)
			r := startDefined(t, api, dynwatch.Resource{Group: "example.com", Resource: "*"})
			r.targets("example.com/toys")
			r.stop(kill)
			api.put("a", "x", "")
			api.install("example.com", resource("things", "Thing"))
			r.begin(dynwatch.Resource{Group: "example.com", Resource: "*"})
			r.targets("example.com/things", "example.com/toys")
			r.eventually("synced", func() bool { return len(r.since(0)) == 3 })
			if got := r.since(1)[0]; got != "added a/x uid-1 101" {
				t.Errorf("it came while informd was down: %s", got)
			}
			r.stop(kill)
			before := len(r.log.all())
			api.uninstall("example.com", "things")
			r.begin(dynwatch.Resource{Group: "example.com", Resource: "*"})
			r.targets("example.com/toys")
			if got := r.since(before); len(got) != 2 || !strings.HasPrefix(got[0], "deleted a/x uid-1") {
				t.Errorf("events %q", got)
			}
		})
	}
}

// What exists at the first look is snapshot.
func TestWildcardSnapshot(t *testing.T) {
	api := newWildAPI(t, usual()...)
	api.put("a", "x", "")
	api.do(func() { api.groups.down["example.com"] = true })
	r := startDefined(t, api, everything("s*"))
	r.eventually("the others are there", func() bool { return slices.Contains(r.names(), "core/pods") })
	if slices.Contains(r.names(), "example.com/things") {
		t.Fatal("a group that is down has a target")
	}
	api.do(func() { api.groups.down["example.com"] = false })
	api.touch(apiServices, "v1.example.com")
	r.eventually("snapshot", func() bool { return slices.Contains(r.since(0), "snapshot a/x uid-1 101") })
}

// An error is not taken for an end: neither of a group, nor of all of discovery.
func TestWildcardAndErrors(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for name, breaks := range map[string]func(g *fakeGroups){
			"group down":       func(g *fakeGroups) { g.down["metrics.example.com"] = true },
			"discovery broken": func(g *fakeGroups) { g.broken = true },
		} {
			t.Run(fmt.Sprintf("%s, plain %t", name, plain), func(t *testing.T) {
				api := newWildAPI(t, usual()...)
				api.do(func() { api.groups.plain = plain })
				r := startDefined(t, api, everything())
				r.eventually("expanded", func() bool { return len(r.names()) == 10 })
				asked := r.asked()
				r.api.do(func() { breaks(r.api.groups) })
				r.eventually("asked again", func() bool {
					r.api.touch(apiServices, "v1.metrics.example.com") // a slow machine asks less often after one of them
					return r.asked() > asked+4
				})
				if n := len(r.names()); n != 10 {
					t.Errorf("%d targets: %q", n, r.names())
				}
				r.api.do(func() { r.api.groups.broken = false })
				r.api.install("example.com", resource("toys", "Toy"))
				r.eventually("what is new begins", func() bool { return len(r.names()) == 11 })
			})
		}
	}
}

func (r *rig) asked() (n int) {
	r.api.do(func() { n = r.api.groups.wholes })
	return n
}

// Nothing is asked while nothing changes, and many changes cost few requests.
func TestDiscoveryIsRarelyReadWhole(t *testing.T) {
	r := startWild(t, usual(), everything())
	r.eventually("expanded", func() bool { return len(r.names()) == 10 })
	r.eventually("live", func() bool { return len(r.api.watches()) == 10 })
	r.idle()
	asked := r.asked()
	r.idle()
	if n := r.asked() - asked; n != 0 {
		t.Errorf("asked %d times while nothing changed", n)
	}
	for i := range 300 {
		r.api.touch(customDefinitions, fmt.Sprintf("x%d.example.com", i))
	}
	r.eventually("asked again", func() bool { return r.asked() > asked })
	r.idle()
	if n := r.asked() - asked; n > 100 {
		t.Errorf("asked %d times for 300 changes", n)
	}
}

// An API server that has just started lists no custom resources for a moment, long after the last change of a
// definition: who reads then asks again, although nothing tells of a change. It is also asked once a wildcard is
// applied that matches what the catalog lacks.
func TestDiscoveryBehindTheDefinitions(t *testing.T) {
	for name, first := range map[string]dynwatch.Resource{
		"watched": everything(), "applied later": {Group: "apps", Resource: "*"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startWild(t, slices.Delete(usual(), 3, 4), first) // without the group of things
			r.eventually("expanded", r.manager.Expanded)
			r.idle()
			r.idle()
			r.api.do(func() {
				r.api.groups.groups = append(r.api.groups.groups, group("example.com", resource("things", "Thing")))
			})
			if name == "applied later" {
				must(t, r.manager.Apply([]dynwatch.Resource{everything()}))
			}
			r.eventually("it is watched", func() bool { return slices.Contains(r.names(), "example.com/things") })
		})
	}
}

// Where all groups come in one document, those of single versions are not read.
func TestAggregatedDiscovery(t *testing.T) {
	for plain, want := range map[bool]int{false: 0, true: 1} {
		t.Run(fmt.Sprintf("plain %t", plain), func(t *testing.T) {
			api := newFakeAPI(t)
			api.serveAll(usual()...)
			api.do(func() { api.groups.plain = plain })
			r := startDefined(t, api, dynwatch.Resource{Resource: "pods"}, dynwatch.Resource{Group: "*", Resource: "loads"})
			r.eventually("expanded", r.manager.Expanded)
			r.idle()
			for _, group := range []string{"metrics.example.com", "events.k8s.io"} {
				if n := min(1, api.requestsWith("/apis/"+group+"/v1")); n != want {
					t.Errorf("%s was asked for by itself: %d, want %d", group, n, want)
				}
			}
		})
	}
}

// Without permission to watch definitions it is asked now and then.
func TestWildcardWithoutDefinitions(t *testing.T) {
	api := newWildAPI(t, usual()...)
	api.define()
	api.do(func() { api.definitions.code = 403 })
	r := start(t, api, everything())
	r.eventually("expanded", func() bool { return len(r.names()) == 10 })
	api.install("example.com", resource("toys", "Toy"))
	r.eventually("what is new begins", func() bool { return len(r.names()) == 11 })
}

// The targets do not count as complete before every wildcard is expanded. A wildcard shows as a target until it has
// one.
func TestExpanded(t *testing.T) {
	api := newWildAPI(t, usual()...)
	api.do(func() { api.groups.broken = true })
	api.define()
	r := start(t, api)
	wild := dynwatch.Resource{Group: "*.example.com", Resource: "x*"}
	for _, wanted := range [][]dynwatch.Resource{{everything()}, {things(), everything()}, {wild}} {
		must(t, r.manager.Apply(wanted))
		if r.manager.Expanded() {
			t.Errorf("expanded although discovery is broken: %+v", wanted)
		}
	}
	if s := r.state(dynwatch.Degraded); s.Name != "*.example.com/x*" || s.Looked || !strings.Contains(s.Reason, "unable to handle") {
		t.Errorf("shown as %+v", s)
	}
	must(t, r.manager.Apply([]dynwatch.Resource{things()}))
	if !r.manager.Expanded() {
		t.Error("not expanded although there is no wildcard")
	}
	must(t, r.manager.Apply([]dynwatch.Resource{wild}))
	api.do(func() { api.groups.broken = false })
	r.eventually("expanded", r.manager.Expanded)
	if s := r.state(dynwatch.Waiting); !s.Looked || s.Reason != "no resource of the API server matches" {
		t.Errorf("shown as %+v", s)
	}
	api.install("metrics.example.com", resource("xs", "X"))
	r.targets("metrics.example.com/xs")
}

// The wanted set may change to any other at any time.
func TestWildcardsAreApplied(t *testing.T) {
	r := startWild(t, usual(), everything())
	sets := [][]dynwatch.Resource{
		{everything()},
		{everything("secrets")},
		{things()},
		{things(), everything("apps/*")},
		{{Group: "apps", Resource: "*"}},
		{{Group: "events.k8s.io", Resource: "events"}, everything()},
		{everything(), {Group: "apps", Resource: "*", Mode: dynwatch.Metadata}},
		{},
	}
	sizes := []int{10, 9, 1, 8, 2, 10, 10, 0}
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		i := random.IntN(len(sets))
		must(t, r.manager.Apply(sets[i]))
		if random.IntN(3) > 0 {
			continue
		}
		r.eventually(fmt.Sprintf("set %d has %d targets", i, sizes[i]), func() bool {
			names := r.names()
			return len(names) == sizes[i] && !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "*") })
		})
		if names := r.names(); slices.Contains(names, "core/events") && slices.Contains(names, "events.k8s.io/events") {
			t.Fatal("Events are watched under both names")
		}
	}
}

// TestWildcardOfALostJournal: a journal that has lost events still knows which resources a wildcard
// has. One that was removed meanwhile ends with the deletions of the objects that are known.
func TestWildcardOfALostJournal(t *testing.T) {
	api := newWildAPI(t, withToys(resource("things", "Thing"))...)
	api.put("a", "x", "")
	r := startDefined(t, api, dynwatch.Resource{Group: "example.com", Resource: "*"})
	r.targets("example.com/things", "example.com/toys")
	r.eventually("synced", func() bool { return count(r.log.all(), event.Synced) == 2 })
	r.stop(false)
	before := len(r.log.all())
	r.log.set(func() { r.log.void = true })
	api.uninstall("example.com", "things")
	r.begin(dynwatch.Resource{Group: "example.com", Resource: "*"})
	r.eventually("the deletion", func() bool { return count(r.log.all()[before:], event.Deleted) == 1 })
	r.targets("example.com/toys")
}

// TestWildcardReturns: what was installed while there was no wildcard is known to one that is applied later.
func TestWildcardReturns(t *testing.T) {
	wild := dynwatch.Resource{Group: "example.com", Resource: "*"}
	pods := dynwatch.Resource{Resource: "pods"}
	r := startWild(t, usual(), wild)
	r.targets("example.com/services", "example.com/things")
	must(t, r.manager.Apply([]dynwatch.Resource{pods}))
	r.targets("core/pods")
	r.api.install("example.com", resource("toys", "Toy"))
	r.idle()
	r.idle() // nothing asks any more because of it
	must(t, r.manager.Apply([]dynwatch.Resource{wild}))
	r.targets("example.com/services", "example.com/things", "example.com/toys")
}

// TestDefinitionOfNoWildcard: a definition that is not served, and that no wildcard matches, has nobody ask for it.
func TestDefinitionOfNoWildcard(t *testing.T) {
	r := startWild(t, usual(), dynwatch.Resource{Group: "apps", Resource: "*"})
	r.targets("apps/deployments", "apps/olds")
	r.api.touch(customDefinitions, "toys.example.org")
	r.idle()
	asked := r.asked()
	r.quietFor(3*time.Second, len(r.log.all()))
	if n := r.asked() - asked; n != 0 {
		t.Errorf("asked %d times while nothing changed", n)
	}
}
