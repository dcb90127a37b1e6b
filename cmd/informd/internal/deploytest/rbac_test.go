package deploytest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// readVerbs is all that informd does to a resource that it watches.
func readVerbs() []string { return []string{"list", "watch"} }

// permission is one verb on one resource, or on one object of it.
type permission struct{ group, resource, verb, name string }

// The permissions are exactly what the config inside needs: less is a target
// that waits as forbidden, more is what an intruder gets.
func TestPermissionsAreExactlyWhatTheConfigNeeds(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		config := informdOf(t, d).config
		want := make(map[permission]bool)
		namespaced := true
		for _, r := range config.Resources {
			for _, verb := range readVerbs() {
				want[permission{r.Group, r.Resource, verb, ""}] = true
			}
			namespaced = namespaced && slices.Equal(r.Namespaces, []string{d.namespace})
		}
		if config.Journal.Type != "memory" {
			// A journal on a disk can end up behind another cluster.
			want[permission{"", "namespaces", "get", "kube-system"}] = true
		}
		if diff := cmp.Diff(want, granted(t, d), cmp.AllowUnexported(permission{})); diff != "" {
			t.Errorf("permissions (-needed +granted):\n%s", diff)
		}
		clusterRoles := find[*rbacv1.ClusterRole](d)
		if namespaced && len(clusterRoles) > 0 {
			t.Errorf("the config stays in namespace %s, but there are %d cluster roles", d.namespace, len(clusterRoles))
		}
		if !namespaced && len(find[*rbacv1.Role](d)) > 0 {
			t.Error("the config leaves the namespace, which a role does not cover")
		}
	})
}

// granted is what the bindings give to informd's service account. Every role has
// to be bound and every binding has to bind it.
func granted(t *testing.T, d deployment) map[permission]bool {
	t.Helper()
	rules := make(map[string][]rbacv1.PolicyRule)
	for _, r := range find[*rbacv1.ClusterRole](d) {
		rules["ClusterRole "+r.Name] = r.Rules
		if r.AggregationRule != nil {
			t.Errorf("cluster role %s takes in others", r.Name)
		}
	}
	for _, r := range find[*rbacv1.Role](d) {
		rules["Role "+r.Name] = r.Rules
	}
	account := informdOf(t, d).workload.pod.ServiceAccountName
	all := make(map[permission]bool)
	bind := func(name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		bound, ok := rules[ref.Kind+" "+ref.Name]
		if !ok {
			t.Errorf("binding %s: there is no %s %s", name, ref.Kind, ref.Name)
		}
		delete(rules, ref.Kind+" "+ref.Name)
		want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: d.namespace}}
		if diff := cmp.Diff(want, subjects); diff != "" {
			t.Errorf("binding %s: subjects (-want +got):\n%s", name, diff)
		}
		for _, rule := range bound {
			addRule(t, all, name, rule)
		}
	}
	for _, b := range find[*rbacv1.ClusterRoleBinding](d) {
		bind(b.Name, b.RoleRef, b.Subjects)
	}
	for _, b := range find[*rbacv1.RoleBinding](d) {
		bind(b.Name, b.RoleRef, b.Subjects)
	}
	for name := range rules {
		t.Errorf("%s is bound to nobody", name)
	}
	return all
}

func addRule(t *testing.T, all map[permission]bool, binding string, rule rbacv1.PolicyRule) {
	t.Helper()
	if len(rule.NonResourceURLs) > 0 || len(rule.ResourceNames) > 1 {
		t.Errorf("%s: only plain resource rules are expected here, and those for one object: %v", binding, rule)
	}
	var name string
	if len(rule.ResourceNames) == 1 {
		name = rule.ResourceNames[0]
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				p := permission{group, resource, verb, name}
				if all[p] {
					t.Errorf("%s: %s on %s is granted twice", binding, verb, resource)
				}
				all[p] = true
			}
		}
	}
}
