package dynwatch_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// A plan has the targets of wildcards, and of a wildcard that has none, or perhaps not
// all, a row of its own that says why.
func TestPlanOfWildcards(t *testing.T) {
	wild := func(group, resource string, excluded ...string) dynwatch.Resource {
		return dynwatch.Resource{Group: group, Resource: resource, ExcludeResources: excluded}
	}
	inShop := wild("", "nodes*")
	inShop.Namespaces = []string{"shop"}
	const ready, nothing, nothingLeft, unknown = "ready", "waiting: no resource of the API server matches",
		"waiting: no resource remains: ", "degraded: discovery of API groups failed: metrics.example.com;"
	down := func(api *fakeAPI) { api.groups.down["metrics.example.com"] = true }
	refused := func(code int, reason string) func(api *fakeAPI) {
		return func(api *fakeAPI) {
			api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/apis" {
					writeStatus(w, code, reason, "not now")
				}
				return r.URL.Path == "/apis"
			}
		}
	}
	cases := map[string]struct {
		begin  func(api *fakeAPI)
		wanted []dynwatch.Resource
		want   map[string]string // how state and reason begin
	}{
		"it has targets":             {nil, []dynwatch.Resource{wild("apps", "*")}, map[string]string{"apps/deployments": ready, "apps/olds": ready}},
		"it matches nothing":         {nil, []dynwatch.Resource{wild("*.nowhere", "*"), {Resource: "pods"}}, map[string]string{"*.nowhere/*": nothing, "core/pods": ready}},
		"everything is excluded":     {nil, []dynwatch.Resource{wild("apps", "*", "*")}, map[string]string{"apps/*": nothingLeft}},
		"others have it":             {nil, []dynwatch.Resource{{Resource: "pods"}, wild("", "pod*")}, map[string]string{"core/pods": ready, "core/pod*": nothingLeft}},
		"it is cluster-scoped":       {nil, []dynwatch.Resource{inShop}, map[string]string{"core/nodes*": nothingLeft}},
		"a group is down":            {down, []dynwatch.Resource{wild("*", "[pr]*")}, map[string]string{"core/pods": ready, "*/[pr]*": unknown}},
		"its only group is down":     {down, []dynwatch.Resource{wild("metrics.example.com", "*")}, map[string]string{"metrics.example.com/*": unknown}},
		"a group that it excludes":   {down, []dynwatch.Resource{wild("*", "p*", "metrics.example.com/*")}, map[string]string{"core/pods": ready}},
		"a name that it excludes":    {down, []dynwatch.Resource{wild("*.example.com", "rates", "rates"), {Resource: "pods"}}, map[string]string{"core/pods": ready, "*.example.com/rates": nothing}},
		"another group is down":      {down, []dynwatch.Resource{wild("", "p*")}, map[string]string{"core/pods": ready}},
		"an entry in a group down":   {down, []dynwatch.Resource{{Group: "metrics.example.com", Resource: "rates"}}, map[string]string{"metrics.example.com/rates": "degraded: get API group metrics.example.com: "}},
		"discovery is broken":        {refused(503, "ServiceUnavailable"), []dynwatch.Resource{wild("*", "*"), {Resource: "pods"}}, map[string]string{"*/*": "degraded: expand the wildcard: get API groups: ", "core/pods": ready}},
		"discovery is forbidden":     {refused(403, "Forbidden"), []dynwatch.Resource{wild("*", "*")}, map[string]string{"*/*": "forbidden: expand the wildcard: get API groups: "}},
		"an entry that is not there": {nil, []dynwatch.Resource{{Group: "nowhere.io", Resource: "xs"}}, map[string]string{"nowhere.io/xs": `waiting: not served: the API server has no group "nowhere.io"`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newWildAPI(t, usual()...)
			if c.begin != nil {
				c.begin(api)
			}
			all, err := dynwatch.Plan(t.Context(), api.config(), c.wanted, 0)
			must(t, err)
			got := make(map[string]string)
			for _, p := range all.Targets {
				got[p.Name] = strings.TrimSuffix(string(p.State)+": "+p.Reason, ": ")
				if want, ok := c.want[p.Name]; ok && strings.HasPrefix(got[p.Name], want) {
					got[p.Name] = want
				}
			}
			same(t, c.want, got)
			if !slices.IsSortedFunc(all.Targets, func(a, b dynwatch.TargetPlan) int { return strings.Compare(a.Name, b.Name) }) {
				t.Error("not sorted by name")
			}
		})
	}
}

// What informd works without is no target's fault, and is not told where it is watched
// itself.
func TestPlanOfOptionalAccess(t *testing.T) {
	missing := func(group, resource string, verbs ...string) dynwatch.MissingAccess {
		return dynwatch.MissingAccess{
			Group: group, Resource: resource, Verbs: verbs, Without: "informd notices added and removed resources with a delay",
		}
	}
	cases := map[string]struct {
		denied []string
		want   []dynwatch.MissingAccess
	}{
		"nothing": {},
		"a watch": {[]string{"watch customresourcedefinitions"}, []dynwatch.MissingAccess{missing("apiextensions.k8s.io", "customresourcedefinitions", "watch")}},
		"all": {
			[]string{"list customresourcedefinitions", "watch customresourcedefinitions", "list apiservices", "watch apiservices"},
			[]dynwatch.MissingAccess{
				missing("apiextensions.k8s.io", "customresourcedefinitions", "list", "watch"), missing("apiregistration.k8s.io", "apiservices", "list", "watch"),
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.deny(c.denied...)
			all, err := dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{things()}, 0)
			if err != nil || len(all.Targets) != 1 || all.Targets[0].State != dynwatch.Ready {
				t.Errorf("%v: %+v", err, all)
			}
			same(t, c.want, all.Optional)
		})
	}
	api := newFakeAPI(t)
	api.denied = map[string]bool{"list apiservices": true}
	all, err := dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{{Group: "apiregistration.k8s.io", Resource: "apiservices"}}, 0)
	if err != nil || len(all.Optional) > 0 || !slices.Equal(all.Targets[0].MissingVerbs, []string{"list"}) {
		t.Errorf("%v: %+v", err, all)
	}
}
