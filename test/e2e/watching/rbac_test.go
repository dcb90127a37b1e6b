package watching_test

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// waitUntilAllowed waits until the API server, which learns of permissions from
// watches of its own, lets a user list.
func waitUntilAllowed(t *testing.T, resources ...dynamic.ResourceInterface) {
	t.Helper()
	for _, r := range resources {
		e2e.Eventually(t, "permission in force", func() bool {
			_, err := r.List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil
		})
	}
}

// They are enough for wildcards and labels of namespaces, too, for what comes later as
// well, and `informd plan` says so before.
func TestPrintedPermissionsAreEnoughForSelections(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	n := &namespaced{t: t, client: dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())), written: make(map[string][]uint64)}
	user, err := c.AddUser("system:serviceaccount:informd:informd", "system:serviceaccounts", "system:serviceaccounts:informd")
	e2e.Must(t, err)
	first, later := e2e.CustomKind("gadgets", false), e2e.CustomKind("planets", true)
	first.Install(t, n.client)
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: user.Kubeconfig(), Journal: e2e.LogJournal, Resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: "*"}
		- {resource: services, namespaceSelector: tier=prod}`})
	plan, _ := d.Plan(1)
	for name, missing := range map[string][2][]string{
		"core/configmaps@default": {{"list", "watch"}},
		first.Target():            {{"list", "watch"}},
		"core/services":           {{"list", "watch"}, {"list", "watch"}},
	} {
		if p := plan[name]; !slices.Equal(p.MissingVerbs, missing[0]) || !slices.Equal(p.MissingNamespaceVerbs, missing[1]) || p.State != "forbidden" {
			t.Errorf("before anything is allowed: %+v", p)
		}
	}
	e2e.Apply(t, n.client, map[string]any{"kind": "Namespace"}, "v1", "informd")
	e2e.ApplyAll(t, n.client, d.Must("rbac"))
	e2e.Eventually(t, "nothing is missing", func() bool {
		_, _, code := e2e.RunInformd(t, "plan", "--config", d.Config)
		return code == 0
	})
	if plan, optional := d.Plan(0); len(plan) != 3 || len(optional) > 0 {
		t.Errorf("with all that is printed: %+v, optional %q", plan, optional)
	}
	d.Start()
	d.WaitForLive(3)
	if took := e2e.Installed(t, d, c.RESTConfig(), later); took > e2e.LiveLimit {
		t.Errorf("a custom resource is live %v after it was served", took)
	}
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}},
	}}
	services := n.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"})
	n.label(t.Context(), "team-a", "test")
	if _, err := services.Namespace("team-a").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.label(t.Context(), "team-a", "prod")
	e2e.Eventually(t, "a namespace's labels are followed", func() bool {
		return slices.ContainsFunc(d.Records(), func(r e2e.Record) bool { return r.Op == "entered" && r.Namespace == "team-a" && r.Name == "web" })
	})
	s, err := d.Status()
	if err != nil || len(s.Targets) != 4 {
		t.Errorf("%v, %d targets", err, len(s.Targets))
	}
	for _, target := range s.Targets {
		if len(target.MissingVerbs) > 0 || target.State != "live" {
			t.Errorf("%s is %s, missing %v", target.Target, target.State, target.MissingVerbs)
		}
	}
	d.Stop()
	d.CheckAllowed()
	granted := dynamic.NewForConfigOrDie(e2e.Fast(user.RESTConfig()))
	for name, list := range map[string]dynamic.ResourceInterface{
		"secrets":                   granted.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}),
		"configmaps of another one": granted.Resource(e2e.ConfigMapKind().GVR).Namespace("team-a"),
		"deployments":               granted.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}),
	} {
		if _, err := list.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("list %s: %v, want forbidden", name, err)
		}
	}
}
