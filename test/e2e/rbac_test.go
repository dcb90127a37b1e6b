package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

func allowConfigMaps(t *testing.T, client dynamic.Interface, user string) {
	t.Helper()
	allow(t, client, user, "", "configmaps")
}

func allowPods(t *testing.T, client dynamic.Interface, user string) {
	t.Helper()
	allow(t, client, user, "", "pods")
}

// allow lets a user list and watch a resource in the whole cluster.
func allow(t *testing.T, client dynamic.Interface, user, group, resource string) {
	t.Helper()
	allowVerbs(t, client, user, group, resource, "list", "watch")
}

func allowVerbs(t *testing.T, client dynamic.Interface, user, group, resource string, verbs ...any) {
	t.Helper()
	name := fmt.Sprint(append([]any{user, "-", resource}, verbs...)...)
	apply(t, client, map[string]any{
		"kind":  "ClusterRole",
		"rules": []any{map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}},
	}, rbacVersion, name)
	apply(t, client, map[string]any{
		"kind":     "ClusterRoleBinding",
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	}, rbacVersion, name)
}

const rbacVersion = "rbac.authorization.k8s.io/v1"

// apply creates an object of one of the kinds that permissions are made of.
func apply(t *testing.T, client dynamic.Interface, fields map[string]any, apiVersion, name string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: fields}
	o.SetAPIVersion(apiVersion)
	o.SetName(name)
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	resource := client.Resource(gv.WithResource(strings.ToLower(o.GetKind()) + "s"))
	_, err = resource.Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create %s %s: %v", o.GetKind(), name, err)
	}
}

// applyAll is apply for the documents of a YAML stream.
func applyAll(t *testing.T, client dynamic.Interface, stream string) {
	t.Helper()
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(stream), len(stream)); ; {
		var o unstructured.Unstructured
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		apply(t, client, o.Object, o.GetAPIVersion(), o.GetName())
	}
}

// waitUntilAllowed waits until the API server, which learns of permissions from
// watches of its own, lets a user list.
func waitUntilAllowed(t *testing.T, resources ...dynamic.ResourceInterface) {
	t.Helper()
	for _, r := range resources {
		eventually(t, "permission in force", func() bool {
			_, err := r.List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil
		})
	}
}

// missingPermissions is what informd's log says of them.
const missingPermissions = "permissions missing; apply the output of `informd rbac`"

// A verb that is missing is named, with the way out, and nobody else waits for it.
// Granted, its target goes on by itself.
func TestMissingVerbIsNamedAndHeals(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	user, err := c.AddUser("limited")
	if err != nil {
		t.Fatal(err)
	}
	allowConfigMaps(t, client, user.Name)
	allowVerbs(t, client, user.Name, "", "pods", "list")
	limited := dynamic.NewForConfigOrDie(fast(user.RESTConfig()))
	waitUntilAllowed(t, limited.Resource(configMapKind().gvr), limited.Resource(podKind().gvr))
	d := startInformd(t, user.Kubeconfig(), `
		- {resource: configmaps, namespaces: [default]}
		- {resource: pods}`, "")
	shown := func(states map[string]string, missing map[string][]string) func() bool {
		return func() bool {
			s, err := d.status()
			if err != nil || len(s.Targets) != len(states) {
				return false
			}
			for _, target := range s.Targets {
				if target.State != states[target.Target] || !slices.Equal(target.MissingVerbs, missing[target.Target]) {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "one target live, one without watch", shown(
		map[string]string{"core/configmaps@default": "live", "core/pods": "forbidden"}, map[string][]string{"core/pods": {"watch"}}))
	allowVerbs(t, client, user.Name, "", "pods", "watch")
	eventually(t, "both live", shown(map[string]string{"core/configmaps@default": "live", "core/pods": "live"}, nil))
	d.stop()
	var told []string
	for line := range strings.Lines(d.stderr.String()) {
		if strings.Contains(line, missingPermissions) {
			told = append(told, line)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "target=core/pods verbs=[watch] namespace=*") {
		t.Errorf("missing permissions are told in %q, want one line", told)
	}
}

// As the account that `informd rbac` prints, with what it grants, informd can do all
// that its config says, and the account nothing else.
func TestPrintedPermissionsAreEnough(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	user, err := c.AddUser("system:serviceaccount:informd:informd", "system:serviceaccounts", "system:serviceaccounts:informd")
	if err != nil {
		t.Fatal(err)
	}
	kinds := []kind{configMapKind(), customKind("gadgets", false)}
	kinds[1].install(t, client)
	l := newLedger()
	d := newInformd(t, setup{kubeconfig: user.Kubeconfig(), journal: logJournal, resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets}`})
	apply(t, client, map[string]any{"kind": "Namespace"}, "v1", "informd")
	applyAll(t, client, d.must("rbac"))
	granted := dynamic.NewForConfigOrDie(fast(user.RESTConfig()))
	waitUntilAllowed(t, granted.Resource(kinds[0].gvr).Namespace("default"), granted.Resource(kinds[1].gvr))
	d.start()
	d.waitForLive(2)
	writeAll(t, client, kinds, l, 40, 1)
	eventually(t, "stream complete", func() bool { return complete(kinds, d.records(), l) })
	for _, k := range kinds {
		check(t, k, d.records(), l, client, claim{})
	}
	d.stop()
	d.checkAllowed()
	for name, list := range map[string]dynamic.ResourceInterface{
		"secrets":                       granted.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}),
		"configmaps of another one":     granted.Resource(kinds[0].gvr).Namespace("kube-system"),
		"configmaps of every namespace": granted.Resource(kinds[0].gvr),
	} {
		if _, err := list.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("list %s: %v, want forbidden", name, err)
		}
	}
}

// checkAllowed holds the log to that nothing was forbidden.
func (d *informd) checkAllowed() {
	d.t.Helper()
	for line := range strings.Lines(d.stderr.String()) {
		if strings.Contains(line, missingPermissions) || strings.Contains(strings.ToLower(line), "forbidden") ||
			strings.Contains(line, "cannot be checked") || strings.Contains(line, "not checked") || strings.Contains(line, "not watchable") || strings.Contains(line, "cannot be watched") {
			d.t.Errorf("not everything was allowed: %s", line)
		}
	}
}

// They are enough for wildcards and labels of namespaces, too, for what comes later as
// well, and `informd plan` says so before.
func TestPrintedPermissionsAreEnoughForSelections(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	n := &namespaced{t: t, client: dynamic.NewForConfigOrDie(fast(c.RESTConfig())), written: make(map[string][]uint64)}
	user, err := c.AddUser("system:serviceaccount:informd:informd", "system:serviceaccounts", "system:serviceaccounts:informd")
	if err != nil {
		t.Fatal(err)
	}
	first, later := customKind("gadgets", false), customKind("planets", true)
	first.install(t, n.client)
	d := newInformd(t, setup{kubeconfig: user.Kubeconfig(), journal: logJournal, resources: `
		- {resource: configmaps, namespaces: [default]}
		- {group: e2e.example.com, resource: "*"}
		- {resource: services, namespaceSelector: tier=prod}`})
	plan, _ := d.plan(1)
	for name, missing := range map[string][2][]string{
		"core/configmaps@default": {{"list", "watch"}},
		first.target():            {{"list", "watch"}},
		"core/services":           {{"list", "watch"}, {"list", "watch"}},
	} {
		if p := plan[name]; !slices.Equal(p.MissingVerbs, missing[0]) || !slices.Equal(p.MissingNamespaceVerbs, missing[1]) || p.State != "forbidden" {
			t.Errorf("before anything is allowed: %+v", p)
		}
	}
	apply(t, n.client, map[string]any{"kind": "Namespace"}, "v1", "informd")
	applyAll(t, n.client, d.must("rbac"))
	eventually(t, "nothing is missing", func() bool {
		_, _, code := runInformd(t, "plan", "--config", d.config)
		return code == 0
	})
	if plan, optional := d.plan(0); len(plan) != 3 || len(optional) > 0 {
		t.Errorf("with all that is printed: %+v, optional %q", plan, optional)
	}
	d.start()
	d.waitForLive(3)
	if took := installed(t, d, c.RESTConfig(), later); took > liveLimit {
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
	eventually(t, "a namespace's labels are followed", func() bool {
		return slices.ContainsFunc(d.records(), func(r record) bool { return r.Op == "entered" && r.Namespace == "team-a" && r.Name == "web" })
	})
	s, err := d.status()
	if err != nil || len(s.Targets) != 4 {
		t.Errorf("%v, %d targets", err, len(s.Targets))
	}
	for _, target := range s.Targets {
		if len(target.MissingVerbs) > 0 || target.State != "live" {
			t.Errorf("%s is %s, missing %v", target.Target, target.State, target.MissingVerbs)
		}
	}
	d.stop()
	d.checkAllowed()
	granted := dynamic.NewForConfigOrDie(fast(user.RESTConfig()))
	for name, list := range map[string]dynamic.ResourceInterface{
		"secrets":                   granted.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}),
		"configmaps of another one": granted.Resource(configMapKind().gvr).Namespace("team-a"),
		"deployments":               granted.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}),
	} {
		if _, err := list.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("list %s: %v, want forbidden", name, err)
		}
	}
}
