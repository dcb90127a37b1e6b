package watching_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// A plan says what is there and what is missing, beside an
// informd with the same config, which notices nothing.
func TestPlan(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	user, err := c.AddUser("planner")
	e2e.Must(t, err)
	e2e.AllowConfigMaps(t, client, user.Name)
	e2e.Allow(t, client, user.Name, "", "events")
	e2e.AllowVerbs(t, client, user.Name, "", "pods", "list")
	limited := dynamic.NewForConfigOrDie(e2e.Fast(user.RESTConfig()))
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	waitUntilAllowed(t, limited.Resource(core("configmaps")), limited.Resource(core("events")), limited.Resource(core("pods")))
	configMaps := client.Resource(core("configmaps")).Namespace("default")
	const objects, labelled = 60, 30
	e2e.InParallel(t, objects, func(ctx context.Context, i int) error {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		o.SetName(fmt.Sprintf("plan-%d", i))
		if i < labelled {
			o.SetLabels(map[string]string{"plan": "yes"})
		}
		_, err := configMaps.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
	s := e2e.Setup{Kubeconfig: user.Kubeconfig(), Resources: `
		- {resource: configmaps, namespaces: [default]}
		- {resource: events}
		- {resource: pods}
		- {resource: secrets}
		- {group: nowhere.example.com, resource: things}`}
	d := e2e.NewInformd(t, s)
	d.Start()
	e2e.Eventually(t, "two targets live, and written to the file", func() bool {
		s, err := d.Status()
		live := 0
		for _, target := range s.Targets {
			if target.State == "live" {
				live++
			}
		}
		return err == nil && live == 2 && e2e.Count(d.Records(), "synced") >= 2 && s.Sinks[0].LagEvents == 0
	})
	before := len(d.Records())
	plan, optional := d.Plan(1)
	if !slices.Equal(optional, []string{"customresourcedefinitions", "apiservices", "namespaces"}) {
		t.Errorf("optional: %q", optional)
	}
	checkPlan(t, plan, objects)

	table, code := d.Command("plan")
	if line := regexp.MustCompile(`(?m)^core/configmaps@default +v1 +full +namespaced +default +ready +60 +- +-$`); !line.MatchString(table) ||
		!strings.Contains(table, "`informd rbac`") || code != 1 {
		t.Errorf("exit code %d, the table is\n%s", code, table)
	}
	if n := e2e.Count(d.Records()[before:], "modified"); n != len(d.Records())-before {
		t.Errorf("%d records since the first plan, %d of them modified", len(d.Records())-before, n)
	}
	d.Stop()

	// With a selector the API server does not tell how many there are.
	s.Resources = "- {resource: configmaps, labelSelector: plan=yes}"
	d.Configure(s)
	selected, _ := d.Plan(0)
	if p := selected["core/configmaps"]; p.State != "ready" || p.Objects == nil || *p.Objects != 1 || !p.MoreObjects {
		t.Errorf("with a selector: %+v", p)
	}
	checkFiltered(d, s, client, user.Name, objects)
	e2e.Must(t, c.APIServer(0).Kill())
	if output, code := d.Command("plan"); code != 1 || !strings.Contains(output, c.Endpoint(0)) {
		t.Errorf("without an API server: exit code %d\n%s", code, output)
	}
}

// checkFiltered holds plans of filtered targets to what is in the namespaces that they
// cover, before and after the permission to list these.
func checkFiltered(d *e2e.Informd, s e2e.Setup, client dynamic.Interface, user string, objects uint64) {
	d.T.Helper()
	e2e.CreateConfigMap(d.T, client.Resource(e2e.ConfigMapKind().GVR).Namespace("kube-public"), "elsewhere", nil)
	check := func(exits int, state string, matching, objects uint64, missing ...string) {
		d.T.Helper()
		plan, _ := d.Plan(exits)
		p := plan["core/configmaps"]
		var gotMatching, gotObjects uint64
		if p.MatchingNamespaces != nil {
			gotMatching = uint64(*p.MatchingNamespaces)
		}
		if p.Objects != nil {
			gotObjects = *p.Objects
		}
		if p.State != state || gotMatching != matching || gotObjects != objects || p.MoreObjects || !slices.Equal(p.MissingNamespaceVerbs, missing) {
			d.T.Errorf("%d namespaces, %d objects, %+v", gotMatching, gotObjects, p)
		}
	}
	s.Resources = "- {resource: configmaps, excludeNamespaces: [kube-*]}"
	d.Configure(s)
	check(0, "ready", 0, 0)
	s.Resources = "- {resource: configmaps, namespaceSelector: kubernetes.io/metadata.name in (default)}"
	d.Configure(s)
	check(1, "forbidden", 0, 0, "list", "watch")
	e2e.Allow(d.T, client, user, "", "namespaces")
	e2e.Eventually(d.T, "permission in force", func() bool {
		plan, _, code := e2e.RunInformd(d.T, "plan", "--config", d.Config)
		return code == 0 && strings.Contains(plan, "labels kubernetes.io/metadata.name in (default) (1 now)")
	})
	check(0, "ready", 1, objects)
}

// checkPlan holds a plan to what is there and what is allowed.
func checkPlan(t *testing.T, plan map[string]e2e.Planned, objects uint64) {
	t.Helper()
	cases := map[string]struct {
		version, state, reason string
		missing                []string
	}{
		"core/configmaps@default":    {"v1", "ready", "", nil},
		"core/events":                {"v1", "ready", "", nil},
		"core/pods":                  {"v1", "forbidden", "do not allow to watch", []string{"watch"}},
		"core/secrets":               {"v1", "forbidden", `cannot list resource "secrets"`, []string{"list", "watch"}},
		"nowhere.example.com/things": {"", "waiting", `no group "nowhere.example.com"`, []string{"list", "watch"}},
	}
	for name, c := range cases {
		p, ok := plan[name]
		if !ok || p.Version != c.version || p.State != c.state || !strings.Contains(p.Reason, c.reason) || c.reason == "" != (p.Reason == "") || !slices.Equal(p.MissingVerbs, c.missing) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if len(plan) != len(cases) {
		t.Errorf("%d targets, want %d", len(plan), len(cases))
	}
	p := plan["core/configmaps@default"]
	if p.Objects == nil || *p.Objects != objects || p.MoreObjects {
		t.Errorf("%d objects: %+v", objects, p)
	}
	if p := plan["core/secrets"]; p.Objects != nil {
		t.Errorf("numbers of what may not be read: %+v", p)
	}
}
