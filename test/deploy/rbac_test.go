package deploy_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/rbac"
)

// readVerbs is all that informd does to a resource that it watches.
func readVerbs() []string { return []string{"list", "watch"} }

// permission is one verb on one resource, or on one object of it, everywhere or in
// one namespace.
type permission struct{ namespace, group, resource, verb, name string }

// watching is what it takes to watch a resource.
func watching(namespace, group, resource string) map[permission]bool {
	all := make(map[permission]bool)
	for _, verb := range readVerbs() {
		all[permission{namespace, group, resource, verb, ""}] = true
	}
	return all
}

// optional is with what informd knows at once of resources that come and go, and that the address
// leads to another cluster. It works without.
func optional() map[permission]bool {
	all := watching("", "apiextensions.k8s.io", "customresourcedefinitions")
	all[permission{"", "", "namespaces", "get", "kube-system"}] = true
	maps.Copy(all, watching("", "apiregistration.k8s.io", "apiservices"))
	return all
}

// needed is what a config needs. To stay in one namespace, it has to do without
// what is optional.
func needed(c *config.Config, staysInNamespace bool) map[permission]bool {
	all := make(map[permission]bool)
	for _, r := range c.Resources {
		for _, namespace := range r.Namespaces {
			maps.Copy(all, watching(namespace, r.Group, r.Resource))
		}
		if len(r.Namespaces) == 0 {
			maps.Copy(all, watching("", r.Group, r.Resource))
		}
	}
	if !staysInNamespace {
		maps.Copy(all, optional())
	}
	if r := c.Replicas; r.Lease != "" {
		for _, verb := range []string{"get", "update"} {
			all[permission{r.Namespace, "coordination.k8s.io", "leases", verb, r.Lease}] = true
		}
		all[permission{r.Namespace, "coordination.k8s.io", "leases", "create", ""}] = true
	}
	return all
}

// The permissions are exactly what the config inside needs: less is a target
// that waits as forbidden, more is what an intruder gets.
func TestPermissionsAreExactlyWhatTheConfigNeeds(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		in := informdOf(t, d)
		staysInNamespace := !slices.ContainsFunc(in.config.Resources, func(r config.Resource) bool {
			return !slices.Equal(r.Namespaces, []string{d.namespace})
		})
		if clusterRoles := find[*rbacv1.ClusterRole](d); staysInNamespace && len(clusterRoles) > 0 {
			t.Errorf("the config stays in namespace %s, but there are %d cluster roles", d.namespace, len(clusterRoles))
		}
		account := in.workload.pod.ServiceAccountName
		if diff := cmp.Diff(needed(in.config, staysInNamespace), granted(t, d, account), cmp.AllowUnexported(permission{})); diff != "" {
			t.Errorf("permissions (-needed +granted):\n%s", diff)
		}
	})
}

// What `informd rbac` prints for the config inside grants the same, and what is optional.
func TestPrintedPermissionsAreThoseOfTheManifests(t *testing.T) {
	eachKustomization(t, func(t *testing.T, d deployment) {
		in := informdOf(t, d)
		account := rbac.Account{Name: in.workload.pod.ServiceAccountName, Namespace: d.namespace}
		var printed bytes.Buffer
		must(t, rbac.Write(&printed, in.config, account))
		want := granted(t, d, account.Name)
		maps.Copy(want, optional())
		applied := deployment{namespace: d.namespace, manifests: decodeManifests(t, "informd rbac", printed.Bytes())}
		if diff := cmp.Diff(want, granted(t, applied, account.Name), cmp.AllowUnexported(permission{})); diff != "" {
			t.Errorf("permissions (-deployed +printed):\n%s", diff)
		}
		if accounts := find[*corev1.ServiceAccount](applied); len(accounts) != 1 || accounts[0].Name != account.Name || accounts[0].Namespace != d.namespace {
			t.Errorf("printed service accounts: %v", accounts)
		}
	})
}

// granted is what the bindings give to a service account. Every role has to be bound
// and every binding has to bind the account.
func granted(t *testing.T, d deployment, account string) map[permission]bool {
	t.Helper()
	rules := make(map[string][]rbacv1.PolicyRule)
	for _, r := range find[*rbacv1.ClusterRole](d) {
		rules["ClusterRole "+r.Name] = r.Rules
		if r.AggregationRule != nil {
			t.Errorf("cluster role %s takes in others", r.Name)
		}
	}
	for _, r := range find[*rbacv1.Role](d) {
		rules["Role "+r.Name+" "+d.namespaceOf(r)] = r.Rules
	}
	all := make(map[permission]bool)
	bind := func(name, namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		role := strings.TrimSpace(ref.Kind + " " + ref.Name + " " + namespace)
		bound, ok := rules[role]
		if !ok {
			t.Errorf("binding %s: there is no %s", name, role)
		}
		delete(rules, role)
		want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: d.namespace}}
		if diff := cmp.Diff(want, subjects); diff != "" {
			t.Errorf("binding %s: subjects (-want +got):\n%s", name, diff)
		}
		for _, rule := range bound {
			addRule(t, all, name, namespace, rule)
		}
	}
	for _, b := range find[*rbacv1.ClusterRoleBinding](d) {
		bind(b.Name, "", b.RoleRef, b.Subjects)
	}
	for _, b := range find[*rbacv1.RoleBinding](d) {
		bind(b.Name, d.namespaceOf(b), b.RoleRef, b.Subjects)
	}
	for name := range rules {
		t.Errorf("%s has no binding", name)
	}
	return all
}

// namespaceOf is where an object lands: kustomize fills in the kustomization's.
func (d deployment) namespaceOf(o metav1.Object) string {
	if namespace := o.GetNamespace(); namespace != "" {
		return namespace
	}
	return d.namespace
}

func addRule(t *testing.T, all map[permission]bool, binding, namespace string, rule rbacv1.PolicyRule) {
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
				p := permission{namespace, group, resource, verb, name}
				if all[p] {
					t.Errorf("%s: %s on %s is granted twice", binding, verb, resource)
				}
				all[p] = true
			}
		}
	}
}
