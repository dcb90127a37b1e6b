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

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/rbac"
)

// permission is one verb on one resource, or on one object of it, everywhere or in
// one namespace.
type permission struct{ namespace, group, resource, verb, name string }

// optional is with what informd knows at once of resources that come and go, and that the address
// leads to another cluster. It works without.
func optional() map[permission]bool {
	all := map[permission]bool{{"", "", "namespaces", "get", "kube-system"}: true}
	for _, verb := range []string{"list", "watch"} {
		all[permission{"", "apiextensions.k8s.io", "customresourcedefinitions", verb, ""}] = true
		all[permission{"", "apiregistration.k8s.io", "apiservices", verb, ""}] = true
	}
	return all
}

// The permissions are exactly what `informd rbac` prints for the config inside: less is a target
// that waits as forbidden, more is what an intruder gets. To stay in one namespace, a config has to
// do without what is optional.
func TestPermissionsAreExactlyWhatTheConfigNeeds(t *testing.T) {
	eachKustomization(t, func(t *testing.T, r release) {
		in, _ := informdOf(t, r)
		c := parsed(t, r)
		account := rbac.Account{Name: in.template.Spec.ServiceAccountName, Namespace: r.namespace}
		var text bytes.Buffer
		must(t, rbac.Write(&text, c, account))
		printed := release{namespace: r.namespace}
		for document := range strings.SplitSeq(text.String(), "\n---\n") {
			printed.add(t, []byte(document))
		}
		if a := only[*corev1.ServiceAccount](t, printed); a.Name != account.Name || a.Namespace != r.namespace {
			t.Errorf("the printed service account is %s/%s", a.Namespace, a.Name)
		}
		got := granted(t, r, account.Name)
		leaves := func(one config.Resource) bool { return !slices.Equal(one.Namespaces, []string{r.namespace}) }
		if !slices.ContainsFunc(c.Resources, leaves) {
			if roles := of[*rbacv1.ClusterRole](r); len(roles) > 0 {
				t.Errorf("the config stays in namespace %s, but there are %d cluster roles", r.namespace, len(roles))
			}
			maps.Copy(got, optional())
		}
		if diff := cmp.Diff(granted(t, printed, account.Name), got, cmp.AllowUnexported(permission{})); diff != "" {
			t.Errorf("permissions (-printed +granted):\n%s", diff)
		}
	})
}

// granted is what the bindings give to a service account. Every role has to be bound
// and every binding has to bind the account.
func granted(t *testing.T, r release, account string) map[permission]bool {
	t.Helper()
	rules := make(map[string][]rbacv1.PolicyRule)
	for _, role := range of[*rbacv1.ClusterRole](r) {
		rules["ClusterRole "+role.Name] = role.Rules
		if role.AggregationRule != nil {
			t.Errorf("cluster role %s takes in others", role.Name)
		}
	}
	for _, role := range of[*rbacv1.Role](r) {
		rules["Role "+role.Name+" "+role.Namespace] = role.Rules
	}
	all := make(map[permission]bool)
	bind := func(name, namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		role := strings.TrimSpace(ref.Kind + " " + ref.Name + " " + namespace)
		bound, ok := rules[role]
		if !ok {
			t.Errorf("binding %s: there is no %s", name, role)
		}
		delete(rules, role)
		want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: r.namespace}}
		if diff := cmp.Diff(want, subjects); diff != "" {
			t.Errorf("binding %s: subjects (-want +got):\n%s", name, diff)
		}
		for _, rule := range bound {
			addRule(t, all, name, namespace, rule)
		}
	}
	for _, b := range of[*rbacv1.ClusterRoleBinding](r) {
		bind(b.Name, "", b.RoleRef, b.Subjects)
	}
	for _, b := range of[*rbacv1.RoleBinding](r) {
		bind(b.Name, b.Namespace, b.RoleRef, b.Subjects)
	}
	for name := range rules {
		t.Errorf("%s has no binding", name)
	}
	return all
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
