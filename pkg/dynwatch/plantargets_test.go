package dynwatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
)

// fillNamespaces creates namespaces with things in them, named by what label they
// have and how many things: "team-a yes 3".
func (f *fakeAPI) fillNamespaces(t *testing.T, all ...string) {
	t.Helper()
	for _, text := range all {
		var name, label string
		var n int
		if _, err := fmt.Sscan(text, &name, &label, &n); err != nil {
			t.Fatal(err)
		}
		f.put("", name, label)
		for i := range n {
			f.put(name, fmt.Sprintf("x-%03d", i), []string{"yes", ""}[i%2])
		}
	}
}

// What is counted is what the target covers, and a figure that is not exact says so.
func TestPlanOfFilteredTargets(t *testing.T) {
	type figures struct {
		Matching     string
		Objects      int
		More         bool
		State        dynwatch.State
		MissingVerbs []string
	}
	ready := func(matching string, objects int) figures {
		return figures{Matching: matching, Objects: objects, State: dynwatch.Ready}
	}
	few := []string{"kube-system prod 9", "shop test 2", "team-a prod 3", "team-b test 4", "team-x prod 1"}
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("s-%02d prod 2", i))
	}
	filtered := func(namespaces []string, excluded []string, selector string) dynwatch.Resource {
		r := things()
		r.Namespaces, r.ExcludeNamespaces, r.NamespaceSelector = namespaces, excluded, selector
		return r
	}
	team := filtered([]string{"team-*"}, nil, "")
	labelled := filtered([]string{"team-*"}, nil, "")
	labelled.LabelSelector = "on=yes"
	exact := filtered([]string{"shop"}, nil, "")
	exact.Scope = dynwatch.ScopeCluster
	cases := map[string]struct {
		there  []string
		wanted dynwatch.Resource
		denied string
		want   figures
	}{
		"a glob":                         {few, team, "", ready("3", 8)},
		"an exclude":                     {few, filtered(nil, []string{"kube-*", "team-[bx]"}, ""), "", ready("2", 5)},
		"labels":                         {few, filtered(nil, nil, "on=prod"), "", ready("3", 13)},
		"all three":                      {few, filtered([]string{"team-*"}, []string{"team-x"}, "on=prod"), "", ready("1", 3)},
		"exact names, one watch":         {few, exact, "", ready("1", 2)},
		"none":                           {few, filtered([]string{"nowhere-*"}, nil, ""), "", ready("0", 0)},
		"no labels":                      {few, filtered(nil, nil, "on=none"), "", ready("0", 0)},
		"names without their list":       {few, team, "list namespaces", ready("unknown", 0)},
		"labels without their list":      {few, filtered(nil, nil, "on=prod"), "list namespaces", figures{Matching: "unknown", State: dynwatch.Forbidden, MissingVerbs: []string{"list"}}},
		"labels without their watch":     {few, filtered(nil, nil, "on=prod"), "watch namespaces", figures{Matching: "3", Objects: 13, State: dynwatch.Forbidden, MissingVerbs: []string{"watch"}}},
		"with a selector":                {few, labelled, "", figures{Matching: "3", Objects: 3, More: true, State: dynwatch.Ready}},
		"more namespaces than are asked": {many, filtered([]string{"s-*"}, nil, ""), "", figures{Matching: "60", Objects: 100, More: true, State: dynwatch.Ready}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.fillNamespaces(t, c.there...)
			api.denied = map[string]bool{c.denied: true}
			p := planned(t, api, c.wanted)
			got := figures{"unknown", p.Objects, p.More, p.State, p.MissingNamespaceVerbs}
			if p.MatchingNamespaces != nil {
				got.Matching = fmt.Sprint(*p.MatchingNamespaces)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, p.Reason)
			}
			if p.Scope != dynwatch.ScopeCluster || cmp.Diff(c.wanted.ExcludeNamespaces, p.ExcludeNamespaces) != "" || p.NamespaceSelector != c.wanted.NamespaceSelector {
				t.Errorf("the selection is not shown: %+v", p)
			}
			if n := api.requestsWith("/things?"); n > 51 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

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
			all, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, c.wanted)
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
			all, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{things()})
			if err != nil || len(all.Targets) != 1 || all.Targets[0].State != dynwatch.Ready {
				t.Errorf("%v: %+v", err, all)
			}
			same(t, c.want, all.Optional)
		})
	}
	api := newFakeAPI(t)
	api.denied = map[string]bool{"list apiservices": true}
	all, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{{Group: "apiregistration.k8s.io", Resource: "apiservices"}})
	if err != nil || len(all.Optional) > 0 || !slices.Equal(all.Targets[0].MissingVerbs, []string{"list"}) {
		t.Errorf("%v: %+v", err, all)
	}
}
