package rbac_test

import (
	"bytes"
	"errors"
	"io"
	"os"
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

func TestWhatIsPrinted(t *testing.T) {
	got := printed(t, "memory", twoNamespaces, rbac.Account{Name: "orders", Namespace: "shop"})
	comment, got, _ := strings.Cut(got, "\napiVersion")
	want, err := os.ReadFile("testdata/two-namespaces.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), "apiVersion"+got); diff != "" {
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

// rulesIn are the rules of all roles in a text, a line each: "shop: list,watch apps/deployments =web" is for one
// Deployment in the namespace shop, and a rule of a ClusterRole has no namespace.
func rulesIn(t *testing.T, text string) (all []string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var role rbacv1.Role // a ClusterRole has the same fields
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		for _, r := range role.Rules {
			line := strings.Join(r.Verbs, ",") + " " + strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.Resources, ",")
			if role.Namespace != "" {
				line = role.Namespace + ": " + line
			}
			if len(r.ResourceNames) > 0 {
				line += " =" + strings.Join(r.ResourceNames, ",")
			}
			all = append(all, line)
		}
	}
	return all
}

// The rules that every config has.
const (
	identity    = "get /namespaces =kube-system"
	definitions = "list,watch apiextensions.k8s.io/customresourcedefinitions"
	services    = "list,watch apiregistration.k8s.io/apiservices"
)

// TestRules: what an entry needs, and what is the same for all. With ownerChain: true the controllers that Kubernetes
// has may be read where the objects are. An entry that selects a name gets no permission for other objects.
func TestRules(t *testing.T) {
	common := []string{identity, definitions, services}
	pods := append([]string{"list,watch /pods"}, common...)
	const core, apps, batch = "get /replicationcontrollers", "get apps/daemonsets,deployments,replicasets,statefulsets", "get batch/cronjobs,jobs"
	owners := append([]string{"list,watch /pods", core, apps, batch}, common...)
	cases := map[string]struct {
		journal, resources string
		want               []string
	}{
		"a journal in memory":    {"memory", "[pods]", pods},
		"a log":                  {"log, dir: /tmp", "[pods]", pods},
		"nothing cluster-wide":   {"memory", "[{resource: pods, namespaces: [shop]}]", append(slices.Clone(common), "shop: list,watch /pods")},
		"definitions themselves": {"memory", "[customresourcedefinitions.apiextensions.k8s.io]", []string{definitions, identity, services}},
		"a glob":                 {"memory", "[{resource: pods, namespaces: [shop, 'team-*']}]", pods},
		"exact names, one watch": {"memory", "[{resource: pods, namespaces: [shop], scope: cluster}]", pods},
		"labels of namespaces": {
			"memory", "[{resource: pods, namespaces: [shop], namespaceSelector: tier=prod}]",
			append([]string{"list,watch /pods", "list,watch /namespaces"}, common...),
		},
		"labels of namespaces that are watched themselves": {
			"memory", "[{resource: pods, excludeNamespaces: [shop], namespaceSelector: tier=prod}, namespaces]",
			append([]string{"list,watch /namespaces,pods"}, common...),
		},
		"everything":     {"log, dir: /tmp", `[{group: "*", resource: "*", excludeResources: [events]}]`, []string{"list,watch */*", identity}},
		"a group":        {"memory", `["*.apps", deployments.apps]`, append([]string{"list,watch apps/*"}, common...)},
		"names":          {"memory", `["*sets.apps"]`, append([]string{"list,watch apps/*"}, common...)},
		"groups":         {"memory", `[{group: "*.k8s.io", resource: widgets}]`, append([]string{"list,watch */widgets"}, common...)},
		"its own groups": {"memory", `["*.apiextensions.k8s.io"]`, []string{"list,watch apiextensions.k8s.io/*", identity, services}},
		"the order of the config is not that of the rules": {
			"memory", "[jobs.batch, services, deployments.apps, pods]",
			append([]string{"list,watch /pods,services", "list,watch apps/deployments", "list,watch batch/jobs"}, common...),
		},
		"owners": {"memory", "[{resource: pods, ownerChain: true}]", owners},
		"owners in one namespace": {
			"memory", "[{resource: pods, ownerChain: true, namespaces: [shop]}]",
			append(slices.Clone(common), "shop: list,watch /pods", "shop: "+core, "shop: "+apps, "shop: "+batch),
		},
		"the manager, no owners": {"memory", "[{resource: pods, fieldManager: true, namespaces: [shop]}]", append(slices.Clone(common), "shop: list,watch /pods")},
		"owners of one entry":    {"memory", "[{resource: pods, ownerChain: true}, {resource: services, namespaces: [shop]}]", append(slices.Clone(owners), "shop: list,watch /services")},
		"owners of both": {
			"memory", "[{resource: pods, ownerChain: true}, {resource: services, namespaces: [shop], ownerChain: true}]",
			append(slices.Clone(owners), "shop: list,watch /services"),
		},
		"some owners watched": {"memory", "[{resource: pods, ownerChain: true}, '*.apps']", slices.Insert(slices.Clone(owners), 1, "list,watch apps/*")},
		"objects by name": {
			"memory", `[{resource: secrets, namespaces: [shop], fieldSelector: "metadata.name=db"}, ` +
				`{resource: configmaps, namespaces: [shop], fieldSelector: "metadata.namespace!=x,metadata.name==db"}, ` +
				`{resource: endpoints, namespaces: [shop], fieldSelector: "metadata.name!=db"}, ` +
				`{resource: services, namespaces: [shop], fieldSelector: "metadata.name=a"}]`,
			append(slices.Clone(common), "shop: list,watch /endpoints", "shop: list,watch /services =a", "shop: list,watch /configmaps,secrets =db"),
		},
		"objects by name that informd reads itself": {
			"memory", `[{resource: namespaces, fieldSelector: "metadata.name=shop"}, ` +
				`{resource: customresourcedefinitions.apiextensions.k8s.io, fieldSelector: "metadata.name=a.example.com"}, ` +
				`{resource: pods, namespaceSelector: "tier=prod"}]`,
			append([]string{"list,watch /pods", "list,watch /namespaces =shop", definitions + " =a.example.com", "list,watch /namespaces"}, common...),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := printed(t, c.journal, " "+c.resources, base())
			if diff := cmp.Diff(c.want, rulesIn(t, text)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if n := strings.Count(text, "\nkind: ClusterRole\nmetadata:\n  name: informd\n"); n != 1 {
				t.Errorf("%d cluster roles of this name, want 1", n)
			}
			if n, asked := strings.Count(text, "Optional: the controllers for ownerChain."), strings.Contains(c.resources, "owner"); n > 0 != asked {
				t.Errorf("owners are explained %d times", n)
			}
		})
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
	for _, rule := range rulesIn(t, text) {
		if namespace, _, ok := strings.Cut(rule, ": "); ok {
			got = append(got, namespace)
		}
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
