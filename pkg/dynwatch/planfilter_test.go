package dynwatch_test

import (
	"fmt"
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

// What is counted and weighed is what the target covers, and a figure that is not
// exact says so.
func TestPlanOfFilteredTargets(t *testing.T) {
	type figures struct {
		Matching        string
		Objects         int
		More, Estimated bool
		Weighed         int
		State           dynwatch.State
		MissingVerbs    []string
	}
	ready := func(matching string, objects, weighed int) figures {
		return figures{Matching: matching, Objects: objects, Weighed: weighed, State: dynwatch.Ready}
	}
	small := []string{"kube-system prod 9", "shop test 2", "team-a prod 3", "team-b test 4", "team-x prod 1"}
	medium := []string{"kube-system prod 14", "shop test 2", "team-a prod 3", "team-b test 4", "team-x prod 1"}
	large := []string{"kube-system prod 400", "shop test 2", "team-a prod 30", "team-b test 50", "team-x prod 1"}
	places := []string{"kube-system prod 14", "s-1 prod 1", "s-2 prod 2", "s-3 prod 1", "s-4 prod 2", "s-5 prod 3", "s-6 prod 1"}
	many := []string{"kube-system prod 40", "s-1 prod 10", "s-2 prod 10", "s-3 prod 20", "s-4 prod 20", "s-5 prod 12", "s-6 prod 1"}
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
		"a glob":                              {small, team, "", ready("3", 8, 8)},
		"an exclude":                          {small, filtered(nil, []string{"kube-*", "team-[bx]"}, ""), "", ready("2", 5, 5)},
		"labels":                              {small, filtered(nil, nil, "on=prod"), "", ready("3", 13, 13)},
		"all three":                           {small, filtered([]string{"team-*"}, []string{"team-x"}, "on=prod"), "", ready("1", 3, 3)},
		"exact names, one watch":              {small, exact, "", ready("1", 2, 2)},
		"none":                                {small, filtered([]string{"nowhere-*"}, nil, ""), "", ready("0", 0, 0)},
		"more than a page":                    {medium, team, "", ready("3", 8, 8)},
		"more than a page, no labels":         {medium, filtered(nil, nil, "on=none"), "", ready("0", 0, 0)},
		"counted one by one, weighed in four": {places, filtered([]string{"s-*"}, nil, ""), "", ready("6", 10, 8)},
		"names without their list":            {medium, team, "list namespaces", ready("unknown", 8, 8)},
		"labels without their list":           {medium, filtered(nil, nil, "on=prod"), "list namespaces", figures{Matching: "unknown", State: dynwatch.Forbidden, MissingVerbs: []string{"list"}}},
		"labels without their watch":          {small, filtered(nil, nil, "on=prod"), "watch namespaces", figures{Matching: "3", Objects: 13, Weighed: 13, State: dynwatch.Forbidden, MissingVerbs: []string{"watch"}}},
		"more than are looked at one by one":  {large, filtered([]string{"team-a", "team-x"}, []string{"y"}, ""), "", ready("2", 31, 11)},
		"with a selector":                     {medium, labelled, "", ready("3", 5, 5)},
		"with a selector, too many":           {large, labelled, "", figures{Matching: "3", More: true, State: dynwatch.Ready}},
		"too many, and no names":              {large, team, "list namespaces", figures{Matching: "unknown", More: true, State: dynwatch.Ready}},
		"more namespaces than are asked":      {many, filtered([]string{"s-*"}, nil, ""), "", figures{Matching: "6", Objects: 78, Estimated: true, Weighed: 20, State: dynwatch.Ready}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			const each = 300
			api.mangle = func(s string) string { return "{" + strings.Repeat(" ", each-len(s)) + s[1:] }
			api.fillNamespaces(t, c.there...)
			api.denied = map[string]bool{c.denied: true}
			p := planned(t, api, c.wanted)
			got := figures{"unknown", p.Objects, p.More, p.Estimated, p.Weighed, p.State, p.MissingNamespaceVerbs}
			if p.MatchingNamespaces != nil {
				got.Matching = fmt.Sprint(*p.MatchingNamespaces)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, p.Reason)
			}
			if p.Weighed > 0 && p.Bytes != uint64(p.Objects)*each {
				t.Errorf("%d bytes of %d objects of %d", p.Bytes, p.Objects, each)
			}
			if p.Scope != dynwatch.ScopeCluster || cmp.Diff(c.wanted.ExcludeNamespaces, p.ExcludeNamespaces) != "" || p.NamespaceSelector != c.wanted.NamespaceSelector {
				t.Errorf("the selection is not shown: %+v", p)
			}
			if n := api.requestsWith("/things?"); n > 20 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
