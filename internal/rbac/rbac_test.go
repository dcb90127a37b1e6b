package rbac_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/internal/rbac"
	"github.com/informd/informd/pkg/sink/drivers"
)

func base() rbac.Account {
	return rbac.Account{Name: rbac.DefaultName, Namespace: rbac.DefaultNamespace}
}

// printed is what is written for a config with these resources.
func printed(t *testing.T, journal, resources string, a rbac.Account) string {
	t.Helper()
	text := "resources:" + resources + "\njournal: {type: " + journal + "}\nsinks: [{name: out, type: stdout}]\n"
	c, err := configfile.Parse("config.yaml", []byte(text), drivers.All())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var out bytes.Buffer
	if err := rbac.Write(&out, c, a); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const twoNamespaces = `
  - {resource: services, namespaces: [shop]}
  - {group: apps, resource: deployments}
  - {resource: secrets, namespaces: [shop, bank], mode: metadata}
  - {group: apps, resource: daemonsets}`

const wantTwoNamespaces = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: orders
  namespace: shop
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: informd:shop:orders
rules:
# Lines 3, 5 of the config.
- apiGroups:
  - apps
  resources:
  - daemonsets
  - deployments
  verbs:
  - list
  - watch
# Its uid identifies the cluster. Without this, informd cannot notice that the address leads to another one.
- apiGroups:
  - ""
  resourceNames:
  - kube-system
  resources:
  - namespaces
  verbs:
  - get
# Not required: with this, informd knows at once of custom resources that come and go; without, after a while.
- apiGroups:
  - apiextensions.k8s.io
  resources:
  - customresourcedefinitions
  verbs:
  - list
  - watch
# Not required: the same for resources of other API servers.
- apiGroups:
  - apiregistration.k8s.io
  resources:
  - apiservices
  verbs:
  - list
  - watch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: informd:shop:orders
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: informd:shop:orders
subjects:
- kind: ServiceAccount
  name: orders
  namespace: shop
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: informd:shop:orders
  namespace: bank
rules:
# Line 4 of the config.
# This permission allows to read the values of Secrets; informd keeps and sends a hash of them.
- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - list
  - watch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: informd:shop:orders
  namespace: bank
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: informd:shop:orders
subjects:
- kind: ServiceAccount
  name: orders
  namespace: shop
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: informd:shop:orders
  namespace: shop
rules:
# Lines 2, 4 of the config.
# This permission allows to read the values of Secrets; informd keeps and sends a hash of them.
- apiGroups:
  - ""
  resources:
  - secrets
  - services
  verbs:
  - list
  - watch
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: informd:shop:orders
  namespace: shop
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: informd:shop:orders
subjects:
- kind: ServiceAccount
  name: orders
  namespace: shop
`

func TestWhatIsPrinted(t *testing.T) {
	got := printed(t, "memory", twoNamespaces, rbac.Account{Name: "orders", Namespace: "shop"})
	comment, got, _ := strings.Cut(got, "\napiVersion")
	if diff := cmp.Diff(wantTwoNamespaces, "apiVersion"+got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	for line := range strings.Lines(comment) {
		if !strings.HasPrefix(line, "# ") {
			t.Errorf("%q is no comment", line)
		}
	}
	if !strings.Contains(comment, "system:discovery") {
		t.Error("nothing is said of discovery")
	}
}

// rolesIn decodes the roles of one kind.
func rolesIn(t *testing.T, text, kind string) []rbacv1.Role {
	t.Helper()
	var all []rbacv1.Role
	for document := range strings.SplitSeq(text, "\n---\n") {
		var r rbacv1.Role // a ClusterRole has the same fields
		if err := yaml.Unmarshal([]byte(document), &r); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if r.Kind == kind {
			all = append(all, r)
		}
	}
	return all
}

func TestClusterRules(t *testing.T) {
	watch := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}
	}
	identity := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}
	definitions, services := watch("apiextensions.k8s.io", "customresourcedefinitions"), watch("apiregistration.k8s.io", "apiservices")
	cases := map[string]struct {
		journal, resources string
		want               []rbacv1.PolicyRule
	}{
		"a journal in memory":  {"memory", " [{resource: pods}]", []rbacv1.PolicyRule{watch("", "pods"), identity, definitions, services}},
		"a log":                {"log, dir: /tmp", " [{resource: pods}]", []rbacv1.PolicyRule{watch("", "pods"), identity, definitions, services}},
		"nothing cluster-wide": {"memory", " [{resource: pods, namespaces: [shop]}]", []rbacv1.PolicyRule{identity, definitions, services}},
		"definitions that are watched themselves": {"memory", " [{group: apiextensions.k8s.io, resource: customresourcedefinitions}]", []rbacv1.PolicyRule{definitions, identity, services}},
		"a glob":                 {"memory", " [{resource: pods, namespaces: [shop, 'team-*']}]", []rbacv1.PolicyRule{watch("", "pods"), identity, definitions, services}},
		"exact names, one watch": {"memory", " [{resource: pods, namespaces: [shop], scope: cluster}]", []rbacv1.PolicyRule{watch("", "pods"), identity, definitions, services}},
		"labels of namespaces": {
			"memory", " [{resource: pods, namespaces: [shop], namespaceSelector: tier=prod}]",
			[]rbacv1.PolicyRule{watch("", "pods"), watch("", "namespaces"), identity, definitions, services},
		},
		"labels of namespaces that are watched themselves": {
			"memory", " [{resource: pods, excludeNamespaces: [shop], namespaceSelector: tier=prod}, {resource: namespaces}]",
			[]rbacv1.PolicyRule{watch("", "namespaces", "pods"), identity, definitions, services},
		},
		"everything":     {"log, dir: /tmp", ` [{group: "*", resource: "*", excludeResources: [events]}]`, []rbacv1.PolicyRule{watch("*", "*"), identity}},
		"a group":        {"memory", ` [{group: apps, resource: "*"}, {group: apps, resource: deployments}]`, []rbacv1.PolicyRule{watch("apps", "*"), identity, definitions, services}},
		"names":          {"memory", ` [{group: apps, resource: "*sets"}]`, []rbacv1.PolicyRule{watch("apps", "*"), identity, definitions, services}},
		"groups":         {"memory", ` [{group: "*.k8s.io", resource: widgets}]`, []rbacv1.PolicyRule{watch("*", "widgets"), identity, definitions, services}},
		"its own groups": {"memory", ` [{group: "apiextensions.k8s.io", resource: "*"}]`, []rbacv1.PolicyRule{watch("apiextensions.k8s.io", "*"), identity, services}},
		"the order of the config is not that of the rules": {
			"memory", " [{group: batch, resource: jobs}, {resource: services}, {group: apps, resource: deployments}, {resource: pods}]",
			[]rbacv1.PolicyRule{watch("", "pods", "services"), watch("apps", "deployments"), watch("batch", "jobs"), identity, definitions, services},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			roles := rolesIn(t, printed(t, c.journal, c.resources, base()), "ClusterRole")
			if len(roles) != 1 || roles[0].Name != "informd" {
				t.Fatalf("cluster roles: %v", roles)
			}
			if diff := cmp.Diff(c.want, roles[0].Rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if others := rolesIn(t, printed(t, c.journal, c.resources, base()), "Role"); len(others) > 0 && name != "nothing cluster-wide" {
				t.Errorf("roles in namespaces: %v", others)
			}
		})
	}
}

// With ownerChain: true the controllers that Kubernetes has may be read where the objects are.
func TestOwnerRules(t *testing.T) {
	rule := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}
	}
	got := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get"}}
	}
	core, batch := got("", "replicationcontrollers"), got("batch", "cronjobs", "jobs")
	apps := got("apps", "daemonsets", "deployments", "replicasets", "statefulsets")
	identity := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}}
	definitions, services := rule("apiextensions.k8s.io", "customresourcedefinitions"), rule("apiregistration.k8s.io", "apiservices")
	cases := map[string]struct {
		resources  string
		everywhere []rbacv1.PolicyRule
		shop       []rbacv1.PolicyRule
	}{
		"everywhere":   {" [{resource: pods, ownerChain: true}]", []rbacv1.PolicyRule{rule("", "pods"), core, apps, batch, identity, definitions, services}, nil},
		"in one":       {" [{resource: pods, ownerChain: true, namespaces: [shop]}]", []rbacv1.PolicyRule{identity, definitions, services}, []rbacv1.PolicyRule{rule("", "pods"), core, apps, batch}},
		"none asks":    {" [{resource: pods, fieldManager: true, namespaces: [shop]}]", []rbacv1.PolicyRule{identity, definitions, services}, []rbacv1.PolicyRule{rule("", "pods")}},
		"one asks":     {" [{resource: pods, ownerChain: true}, {resource: services, namespaces: [shop]}]", []rbacv1.PolicyRule{rule("", "pods"), core, apps, batch, identity, definitions, services}, []rbacv1.PolicyRule{rule("", "services")}},
		"both ask":     {" [{resource: pods, ownerChain: true}, {resource: services, namespaces: [shop], ownerChain: true}]", []rbacv1.PolicyRule{rule("", "pods"), core, apps, batch, identity, definitions, services}, []rbacv1.PolicyRule{rule("", "services")}},
		"some watched": {" [{resource: pods, ownerChain: true}, {group: apps, resource: '*'}]", []rbacv1.PolicyRule{rule("", "pods"), rule("apps", "*"), core, apps, batch, identity, definitions, services}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := printed(t, "memory", c.resources, base())
			if diff := cmp.Diff(c.everywhere, rolesIn(t, text, "ClusterRole")[0].Rules); diff != "" {
				t.Errorf("in the cluster (-want +got):\n%s", diff)
			}
			var shop []rbacv1.PolicyRule
			for _, r := range rolesIn(t, text, "Role") {
				shop = append(shop, r.Rules...)
			}
			if diff := cmp.Diff(c.shop, shop); diff != "" {
				t.Errorf("in the namespace (-want +got):\n%s", diff)
			}
			if n, asked := strings.Count(text, "Optional: the controllers for ownerChain."), strings.Contains(c.resources, "owner"); n > 0 != asked {
				t.Errorf("owners are explained %d times", n)
			}
		})
	}
}

// An entry that selects a name gets no permission for other objects.
func TestRulesForNames(t *testing.T) {
	named := func(name, group string, resources ...string) rbacv1.PolicyRule {
		rule := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}
		if name != "" {
			rule.ResourceNames = []string{name}
		}
		return rule
	}
	text := printed(t, "memory", `
  - {resource: secrets, namespaces: [shop], fieldSelector: "metadata.name=db"}
  - {resource: configmaps, namespaces: [shop], fieldSelector: "metadata.namespace!=x,metadata.name==db"}
  - {resource: endpoints, namespaces: [shop], fieldSelector: "metadata.name!=db"}
  - {resource: services, namespaces: [shop], fieldSelector: "metadata.name=a"}
  - {resource: namespaces, fieldSelector: "metadata.name=shop"}
  - {resource: customresourcedefinitions.apiextensions.k8s.io, fieldSelector: "metadata.name=a.example.com"}
  - {resource: pods, namespaceSelector: "tier=prod"}`, base())
	identity := named("kube-system", "", "namespaces")
	identity.Verbs = []string{"get"}
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		named("", "", "pods"), named("shop", "", "namespaces"), named("a.example.com", "apiextensions.k8s.io", "customresourcedefinitions"),
		named("", "", "namespaces"), identity,
		named("", "apiextensions.k8s.io", "customresourcedefinitions"), named("", "apiregistration.k8s.io", "apiservices"),
	}, rolesIn(t, text, "ClusterRole")[0].Rules); diff != "" {
		t.Errorf("in the cluster (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		named("", "", "endpoints"), named("a", "", "services"), named("db", "", "configmaps", "secrets"),
	}, rolesIn(t, text, "Role")[0].Rules); diff != "" {
		t.Errorf("in the namespace (-want +got):\n%s", diff)
	}
}

// What a rule allows beyond the entries it is for is said.
func TestWiderRulesAreExplained(t *testing.T) {
	text := printed(t, "memory", `
  - {group: "*.example.com", resource: "*", excludeResources: [events, secrets]}
  - {resource: "*maps"}
  - {resource: "*", namespaces: [shop]}`, base())
	for _, want := range []string{
		`# RBAC has no patterns: group "*.example.com" becomes every group.`,
		`# RBAC cannot leave anything out: excluded resources (events, secrets) are allowed, too.`,
		`# RBAC has no patterns: resource "*maps" becomes every resource of the group.`,
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(text, want))
		}
	}
	if n := strings.Count(text, "# This permission allows to read the values of Secrets"); n != 3 {
		t.Errorf("%d of 3 rules warn of Secrets", n)
	}
}

// YAML takes some good names of namespaces for numbers and truths.
func TestNamesStayText(t *testing.T) {
	names := []string{"007", "1e3", "null", "true", "y"}
	text := printed(t, "memory", ` [{resource: pods, namespaces: ["007", "1e3", "null", "true", "y"]}]`, rbac.Account{Name: "0x1f", Namespace: "42"})
	var got []string
	for _, r := range rolesIn(t, text, "Role") {
		got = append(got, r.Namespace)
	}
	if !slices.Equal(got, names) {
		t.Errorf("namespaces %q, want %q", got, names)
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var b rbacv1.RoleBinding
		if err := yaml.Unmarshal([]byte(document), &b); err != nil {
			t.Fatal(err)
		}
		for _, s := range b.Subjects {
			if s.Name != "0x1f" || s.Namespace != "42" {
				t.Errorf("subject %s/%s", s.Namespace, s.Name)
			}
		}
	}
}

type fullPipe struct{}

func (fullPipe) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriteError(t *testing.T) {
	if err := rbac.Write(fullPipe{}, &config.Config{}, base()); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("error %v", err)
	}
}
