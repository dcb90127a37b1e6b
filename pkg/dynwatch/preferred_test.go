package dynwatch_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// breakVersion has a version answer as one does whose conversion webhook is broken: lists
// that hold an object fail, and no watch opens.
func breakVersion(api *fakeAPI, version string) {
	api.keepRefusing(func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/"+version+"/things") && !strings.Contains(r.URL.Query().Get("fieldSelector"), "-informd-no-object-")
	}, refusal(500, "InternalError", "conversion webhook for example.com/v1, Kind=Thing failed"))
}

// TestPreferredVersionStopsToAnswer: the target says so until it answers, or until the entry names another
// version.
func TestPreferredVersionStopsToAnswer(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn("v2", "v1")
	api.put("a", "x", "")
	r, n := liveFrom(t, api, things())
	stale := func() bool {
		s := r.manager.Targets()[0]
		return s.State == dynwatch.Stale && s.Version == "v2" && strings.Contains(s.Reason, "conversion webhook")
	}
	breakVersion(api, "v2")
	api.cut()
	r.eventually("stale", stale)
	api.put("a", "x", "")
	api.admit()
	r.caughtUp()
	breakVersion(api, "v2")
	api.cut()
	r.eventually("stale again", stale)
	named := things()
	named.Version = "v1"
	must(t, r.manager.Apply([]dynwatch.Resource{named}))
	api.put("a", "x", "")
	r.caughtUp()
	r.wantEvents(n, "modified a/x uid-1 102<101", "modified a/x uid-1 103<102")
}

// Two entries for one storage: the first has it, and the second says so, until it is
// the only one.
func TestEntriesForOneStorage(t *testing.T) {
	core := dynwatch.Resource{Resource: "events"}
	inNamespaces := dynwatch.Resource{Resource: "events", Namespaces: []string{"a", "b"}}
	other := dynwatch.Resource{Group: "events.k8s.io", Resource: "events"}
	pinned := dynwatch.Resource{Group: "events.k8s.io", Version: "v1", Resource: "events", Mode: dynwatch.Metadata}
	cases := map[string]struct {
		wanted  []dynwatch.Resource
		live    []string
		refused map[string]string // the name in the reason, by target
	}{
		"one":                   {wanted: []dynwatch.Resource{other}, live: []string{"events.k8s.io/events"}},
		"the other one":         {wanted: []dynwatch.Resource{core}, live: []string{"core/events"}},
		"both":                  {[]dynwatch.Resource{core, other}, []string{"core/events"}, map[string]string{"events.k8s.io/events": "core/events"}},
		"the other order":       {[]dynwatch.Resource{pinned, core}, []string{"events.k8s.io/events"}, map[string]string{"core/events": "events.k8s.io/events"}},
		"namespaces of one":     {[]dynwatch.Resource{inNamespaces, other}, []string{"core/events@a", "core/events@b"}, map[string]string{"events.k8s.io/events": "core/events"}},
		"and with a wildcard":   {[]dynwatch.Resource{core, {Group: "*", Resource: "events"}, other}, []string{"core/events"}, map[string]string{"events.k8s.io/events": "core/events"}},
		"the name says nothing": {wanted: []dynwatch.Resource{{Resource: "services"}, {Group: "example.com", Resource: "services"}}, live: []string{"core/services", "example.com/services"}},
	}
	api := newWildAPI(t, usual()...)
	r := startDefined(t, api, things())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			must(t, r.manager.Apply(c.wanted))
			r.eventually("one is live and one is refused", func() bool {
				var live []string
				for _, s := range r.manager.Targets() {
					reason := "the resource is an alias of " + c.refused[s.Name] + ", which has an earlier entry: remove one of the two entries"
					switch {
					case s.State == dynwatch.Live:
						live = append(live, s.Name)
					case c.refused[s.Name] == "" || s.State != dynwatch.Degraded || !strings.Contains(s.Reason, reason):
						return false
					}
				}
				return slices.Equal(live, c.live) && len(r.manager.Targets()) == len(c.live)+len(c.refused)
			})
			for _, name := range api.watches() {
				if target := strings.Replace("core"+name, "coreevents.k8s.io", "events.k8s.io", 1); c.refused[target] != "" {
					t.Errorf("%s is watched", target)
				}
			}
			plan, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, c.wanted)
			must(t, err)
			for _, p := range plan.Targets {
				if refused := c.refused[p.Name] != ""; refused != (p.State == dynwatch.Degraded) || refused != strings.Contains(p.Reason, "remove one of the two entries") {
					t.Errorf("plan of %s: %s: %s", p.Name, p.State, p.Reason)
				}
			}
		})
	}
}
