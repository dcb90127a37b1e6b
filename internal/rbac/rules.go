package rbac

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/pkg/dynwatch"
)

// rule is one of a role's.
type rule struct {
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
	Verbs         []string `json:"verbs"`
	// why is what a comment says about it, one line each.
	why []string
}

// newRule is a rule about all objects of a resource.
func newRule(group, resource string, verbs []string, why ...string) rule {
	return rule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs, why: why}
}

// readVerbs are all that informd does to a resource that it watches.
func readVerbs() []string { return []string{"list", "watch"} }

// clusterRules are those that hold in the whole cluster.
func clusterRules(c *config.Config) []rule {
	var everywhere []config.Resource
	selects := false
	for _, r := range c.Resources {
		if r.ClusterWide() {
			everywhere = append(everywhere, r)
		}
		selects = selects || r.NamespaceSelector != ""
	}
	watched := watchRules(everywhere)
	rules := slices.Concat(watched, ownerRules(everywhere))
	if selects && !allow(watched, "", "namespaces") {
		rules = append(rules, newRule("", "namespaces", readVerbs(), "Their labels decide what a namespaceSelector covers."))
	}
	identity := newRule("", "namespaces", []string{"get"},
		"Its uid identifies the cluster. Without this, informd cannot notice that the address leads to another one.")
	identity.ResourceNames = []string{metav1.NamespaceSystem}
	return append(append(rules, identity), noticeRules(watched)...)
}

// noticeRules are those with which informd is told of resources that come and go.
func noticeRules(watched []rule) []rule {
	notices := []rule{
		newRule("apiextensions.k8s.io", "customresourcedefinitions", readVerbs(),
			"Not required: with this, informd knows at once of custom resources that come and go; without, after a while."),
		newRule("apiregistration.k8s.io", "apiservices", readVerbs(), "Not required: the same for resources of other API servers."),
	}
	return slices.DeleteFunc(notices, func(n rule) bool { return allow(watched, n.APIGroups[0], n.Resources[0]) })
}

// namespaceRules are those that hold in one namespace each: an entry with exact names
// of namespaces is watched in each of them by itself. The Lease of replicas is in the namespace own, unless
// the config names another.
func namespaceRules(c *config.Config, own string) map[string][]rule {
	entries := make(map[string][]config.Resource)
	ownersEverywhere := false
	for _, r := range c.Resources {
		if r.ClusterWide() {
			ownersEverywhere = ownersEverywhere || r.OwnerChain
			continue
		}
		for _, namespace := range r.Namespaces {
			entries[namespace] = append(entries[namespace], r)
		}
	}
	rules := make(map[string][]rule, len(entries))
	for namespace, watched := range entries {
		rules[namespace] = watchRules(watched)
		if !ownersEverywhere {
			rules[namespace] = append(rules[namespace], ownerRules(watched)...)
		}
	}
	if c.Replicas.Wanted() {
		namespace := cmp.Or(c.Replicas.Namespace, own)
		rules[namespace] = append(rules[namespace], leaseRules(c.Replicas.Lease)...)
	}
	return rules
}

// leaseRules are those of the Lease of replicas.
func leaseRules(name string) []rule {
	own := newRule("coordination.k8s.io", "leases", []string{"get", "update"}, "The Lease of replicas.")
	own.ResourceNames = []string{name}
	return []rule{own, newRule("coordination.k8s.io", "leases", []string{"create"}, "RBAC has no names for what is created.")}
}

// allow reports whether one of the rules is about all objects of a resource.
func allow(rules []rule, group, resource string) bool {
	has := func(names []string, name string) bool {
		return slices.Contains(names, name) || slices.Contains(names, all)
	}
	return slices.ContainsFunc(rules, func(r rule) bool {
		return has(r.APIGroups, group) && has(r.Resources, resource) && len(r.ResourceNames) == 0
	})
}

// all is what RBAC has for every group, and for every resource.
const all = "*"

// allowed is the narrowest that RBAC can say of an entry: it knows no patterns but one.
func allowed(r config.Resource) config.Resource {
	if config.IsGlob(r.Group) {
		r.Group = all
	}
	if config.IsGlob(r.Resource) {
		r.Resource = all
	}
	return r
}

// wider says what a rule allows beyond its entries.
func wider(watched []config.Resource) (why []string) {
	for _, r := range watched {
		a := allowed(r)
		if a.Group != r.Group {
			why = append(why, fmt.Sprintf("RBAC has no patterns: group %q becomes every group.", r.Group))
		}
		if a.Resource != r.Resource {
			why = append(why, fmt.Sprintf("RBAC has no patterns: resource %q becomes every resource of the group.", r.Resource))
		}
		if len(r.ExcludeResources) > 0 {
			why = append(why, fmt.Sprintf("RBAC cannot leave anything out: excluded resources (%s) are allowed, too.", strings.Join(r.ExcludeResources, ", ")))
		}
	}
	return why
}

// selectedName is the only name that an entry selects, empty if there is none.
func selectedName(r config.Resource) string {
	selector, err := fields.ParseSelector(r.FieldSelector)
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch(metav1.ObjectNameField)
	return name
}

// watchRules has one rule per group, and one per group and name for entries that select a name.
func watchRules(watched []config.Resource) []rule {
	type scope struct{ group, name string }
	scopes := make(map[scope][]config.Resource)
	for _, r := range watched {
		s := scope{allowed(r).Group, selectedName(r)}
		scopes[s] = append(scopes[s], r)
	}
	rules := make([]rule, 0, len(scopes))
	for _, s := range slices.SortedFunc(maps.Keys(scopes), func(a, b scope) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.name, b.name))
	}) {
		one := rule{APIGroups: []string{s.group}, Verbs: readVerbs()}
		if s.name != "" {
			one.ResourceNames = []string{s.name}
		}
		for _, r := range scopes[s] {
			one.Resources = append(one.Resources, allowed(r).Resource)
		}
		if one.Resources = config.Unique(one.Resources); slices.Contains(one.Resources, all) {
			one.Resources = []string{all}
		}
		one.why = append([]string{lines(scopes[s])}, wider(scopes[s])...)
		if (s.group == "" || s.group == all) && (slices.Contains(one.Resources, "secrets") || slices.Contains(one.Resources, all)) {
			one.why = append(one.why, "This permission allows to read the values of Secrets; informd keeps and sends a hash of them.")
		}
		rules = append(rules, one)
	}
	return rules
}

// ownerRules are those with which informd can look up the owners of the entries' objects. Which
// kinds else are controllers only the cluster knows.
func ownerRules(watched []config.Resource) (rules []rule) {
	owned := slices.DeleteFunc(slices.Clone(watched), func(r config.Resource) bool { return !r.OwnerChain })
	if len(owned) == 0 {
		return nil
	}
	why := []string{
		lines(owned) + " Optional: the controllers for ownerChain.",
		"Without these, a chain ends early; add what else controls such objects in your cluster.",
	}
	for _, r := range dynwatch.OwnerResources() {
		if n := len(rules); n > 0 && rules[n-1].APIGroups[0] == r.Group {
			rules[n-1].Resources = append(rules[n-1].Resources, r.Resource)
			continue
		}
		rules = append(rules, newRule(r.Group, r.Resource, []string{"get"}, why...))
	}
	return rules
}

// lines names the lines of the config that have the entries.
func lines(entries []config.Resource) string {
	var at []int
	for _, r := range entries {
		at = append(at, r.Pos.Line)
	}
	slices.Sort(at)
	if at = slices.Compact(at); len(at) == 1 {
		return fmt.Sprintf("Line %d of the config.", at[0])
	}
	return "Lines " + strings.Trim(strings.ReplaceAll(fmt.Sprint(at), " ", ", "), "[]") + " of the config."
}
