package e2e_test

import (
	"context"
	"encoding/json"
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
)

// planned is a target as `informd plan -o json` shows it.
type planned struct {
	Target, Version, State, Reason      string
	MissingVerbs, MissingNamespaceVerbs []string
	MatchingNamespaces                  *int
	Objects                             *uint64
	MoreObjects                         bool
}

// plan returns the plan by target, with the resources of which informd works without
// verbs that are missing. It ends with that exit code.
func (d *informd) plan(exits int) (targets map[string]planned, optional []string) {
	d.t.Helper()
	var document struct {
		Targets  []planned
		Optional []struct{ Resource string }
	}
	stdout, stderr, code := runInformd(d.t, "plan", "-o", "json", "--config", d.config)
	if err := json.Unmarshal([]byte(stdout), &document); err != nil || code != exits {
		d.t.Fatalf("%v, exit code %d, want %d: %s%s", err, code, exits, stdout, stderr)
	}
	targets = make(map[string]planned)
	for _, p := range document.Targets {
		targets[p.Target] = p
	}
	for _, o := range document.Optional {
		optional = append(optional, o.Resource)
	}
	return targets, optional
}

// A plan says what is there and what is missing, beside an
// informd with the same config, which notices nothing.
func TestPlan(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	user, err := c.AddUser("planner")
	if err != nil {
		t.Fatal(err)
	}
	allowConfigMaps(t, client, user.Name)
	allow(t, client, user.Name, "", "events")
	allowVerbs(t, client, user.Name, "", "pods", "list")
	limited := dynamic.NewForConfigOrDie(fast(user.RESTConfig()))
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	waitUntilAllowed(t, limited.Resource(core("configmaps")), limited.Resource(core("events")), limited.Resource(core("pods")))
	configMaps := client.Resource(core("configmaps")).Namespace("default")
	const objects, labelled = 60, 30
	inParallel(t, objects, func(ctx context.Context, i int) error {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		o.SetName(fmt.Sprintf("plan-%d", i))
		if i < labelled {
			o.SetLabels(map[string]string{"plan": "yes"})
		}
		_, err := configMaps.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
	s := setup{kubeconfig: user.Kubeconfig(), resources: `
		- {resource: configmaps, namespaces: [default]}
		- {resource: events}
		- {resource: pods}
		- {resource: secrets}
		- {group: nowhere.example.com, resource: things}`}
	d := newInformd(t, s)
	d.start()
	eventually(t, "two targets live, and written to the file", func() bool {
		s, err := d.status()
		live := 0
		for _, target := range s.Targets {
			if target.State == "live" {
				live++
			}
		}
		return err == nil && live == 2 && count(d.records(), "synced") >= 2 && s.Sinks[0].LagEvents == 0
	})
	before := len(d.records())
	plan, optional := d.plan(1)
	if !slices.Equal(optional, []string{"customresourcedefinitions", "apiservices", "namespaces"}) {
		t.Errorf("optional: %q", optional)
	}
	checkPlan(t, plan, objects)

	table, code := d.command("plan")
	if line := regexp.MustCompile(`(?m)^core/configmaps@default +v1 +full +namespaced +default +ready +60 +- +-$`); !line.MatchString(table) ||
		!strings.Contains(table, "`informd rbac`") || code != 1 {
		t.Errorf("exit code %d, the table is\n%s", code, table)
	}
	if n := count(d.records()[before:], "modified"); n != len(d.records())-before {
		t.Errorf("%d records since the first plan, %d of them modified", len(d.records())-before, n)
	}
	d.stop()

	// With a selector the API server does not tell how many there are.
	s.resources = "- {resource: configmaps, labelSelector: plan=yes}"
	d.configure(s)
	selected, _ := d.plan(0)
	if p := selected["core/configmaps"]; p.State != "ready" || p.Objects == nil || *p.Objects != 1 || !p.MoreObjects {
		t.Errorf("with a selector: %+v", p)
	}
	d.checkFiltered(s, client, user.Name, objects)
	if err := c.APIServer(0).Kill(); err != nil {
		t.Fatal(err)
	}
	if output, code := d.command("plan"); code != 1 || !strings.Contains(output, c.Endpoint(0)) {
		t.Errorf("without an API server: exit code %d\n%s", code, output)
	}
}

// checkFiltered holds plans of filtered targets to what is in the namespaces that they
// cover, before and after the permission to list these.
func (d *informd) checkFiltered(s setup, client dynamic.Interface, user string, objects uint64) {
	d.t.Helper()
	elsewhere := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "elsewhere"}}}
	configMaps := client.Resource(configMapKind().gvr)
	if _, err := configMaps.Namespace("kube-public").Create(d.t.Context(), elsewhere, metav1.CreateOptions{}); err != nil {
		d.t.Fatal(err)
	}
	check := func(exits int, state string, matching, objects uint64, missing ...string) {
		d.t.Helper()
		plan, _ := d.plan(exits)
		p := plan["core/configmaps"]
		var gotMatching, gotObjects uint64
		if p.MatchingNamespaces != nil {
			gotMatching = uint64(*p.MatchingNamespaces)
		}
		if p.Objects != nil {
			gotObjects = *p.Objects
		}
		if p.State != state || gotMatching != matching || gotObjects != objects || p.MoreObjects || !slices.Equal(p.MissingNamespaceVerbs, missing) {
			d.t.Errorf("%d namespaces, %d objects, %+v", gotMatching, gotObjects, p)
		}
	}
	s.resources = "- {resource: configmaps, excludeNamespaces: [kube-*]}"
	d.configure(s)
	check(0, "ready", 0, 0)
	s.resources = "- {resource: configmaps, namespaceSelector: kubernetes.io/metadata.name in (default)}"
	d.configure(s)
	check(1, "forbidden", 0, 0, "list", "watch")
	allow(d.t, client, user, "", "namespaces")
	eventually(d.t, "permission in force", func() bool {
		plan, _, code := runInformd(d.t, "plan", "--config", d.config)
		return code == 0 && strings.Contains(plan, "labels kubernetes.io/metadata.name in (default) (1 now)")
	})
	check(0, "ready", 1, objects)
}

// checkPlan holds a plan to what is there and what is allowed.
func checkPlan(t *testing.T, plan map[string]planned, objects uint64) {
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
