package dynwatch_test

import (
	"fmt"
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
