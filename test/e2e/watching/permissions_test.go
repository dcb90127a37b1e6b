package watching_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	e2e.Create(t, services.Namespace("team-a"), service)
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

// checkReady checks that `informd plan` and the running informd miss no permission for the
// targets, and that an audit comes to its end.
func checkReady(d *e2e.Informd, targets ...string) {
	d.T.Helper()
	plans, _ := d.Plan(0)
	for _, target := range targets {
		if p := plans[target]; p.State != "ready" || len(p.MissingVerbs) > 0 {
			d.T.Errorf("plan of %s: %+v", target, p)
		}
	}
	s, err := d.Status()
	e2e.Must(d.T, err)
	for _, target := range s.Targets {
		if target.State != "live" || len(target.MissingVerbs) > 0 {
			d.T.Errorf("status: %+v", target)
		}
	}
	d.Must("verify")
}

// stories are the operations that the stream has of each object, in order.
func stories(records []e2e.Record) map[string]string {
	all := make(map[string]string)
	for _, r := range records {
		if !r.Control() {
			key := r.Resource + " " + r.Name
			all[key] = strings.TrimPrefix(all[key]+" "+r.Op, " ")
		}
	}
	return all
}

// awaitStories waits until the stream tells these, and no others.
func awaitStories(d *e2e.Informd, want map[string]string) {
	d.T.Helper()
	events := func(stories map[string]string) (n int) {
		for _, story := range stories {
			n += len(strings.Fields(story))
		}
		return n
	}
	e2e.Eventually(d.T, fmt.Sprintf("%d events", events(want)), func() bool { return events(stories(d.Records())) >= events(want) })
	if diff := cmp.Diff(want, stories(d.Records())); diff != "" {
		d.T.Errorf("events by object (-want +got):\n%s", diff)
	}
}

// With a Role for one name, informd watches that object. What `informd rbac` prints for such an
// entry is enough, and permits no other object.
func TestOneNameIsEnough(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	const printed = "system:serviceaccount:informd:informd"
	for user, permit := range map[string]func(d *e2e.Informd, name string){
		"limited": func(_ *e2e.Informd, name string) {
			e2e.ApplyAll(t, client, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: one, namespace: default}
rules: [{apiGroups: [""], resources: [configmaps, secrets], resourceNames: [%s], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: one, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: one}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
`, name))
		},
		printed: func(d *e2e.Informd, _ string) {
			e2e.Apply(t, client, map[string]any{"kind": "Namespace"}, "v1", "informd")
			e2e.ApplyAll(t, client, d.Must("rbac"))
		},
	} {
		t.Run(user, func(t *testing.T) { watchOneName(t, c, client, user, permit) })
	}
}

// watchOneName watches a ConfigMap and a Secret by name as a user.
func watchOneName(t *testing.T, c *cluster.Cluster, client dynamic.Interface, user string, permit func(d *e2e.Informd, name string)) {
	t.Helper()
	name := strings.NewReplacer(":", "-").Replace(user)
	account, err := c.AddUser(user)
	e2e.Must(t, err)
	own := dynamic.NewForConfigOrDie(e2e.Fast(account.RESTConfig())).Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	configMaps := client.Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	e2e.CreateConfigMap(t, configMaps, name, nil)
	e2e.CreateConfigMap(t, configMaps, name+"-other", nil)
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: account.Kubeconfig(), Resources: fmt.Sprintf(`
		- {resource: configmaps, namespaces: [default], fieldSelector: "metadata.name=%[1]s"}
		- {resource: secrets, namespaces: [default], fieldSelector: "metadata.name=%[1]s"}`, name)})
	permit(d, name)
	e2e.Eventually(t, "permission in force", func() bool {
		_, err := own.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil
	})
	d.Start()
	d.WaitForLive(2)
	for _, changed := range []string{name, name + "-other"} {
		e2e.Patch(t, configMaps, changed, `{"data":{"a":"b"}}`)
		e2e.Must(t, configMaps.Delete(t.Context(), changed, metav1.DeleteOptions{}))
	}
	e2e.CreateConfigMap(t, configMaps, name, nil)
	awaitStories(d, map[string]string{"configmaps " + name: "snapshot modified deleted added"})
	checkReady(d, "core/configmaps@default", "core/secrets@default")
	if _, err := own.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name + "-other"}); !apierrors.IsForbidden(err) {
		t.Errorf("list of another name: %v, want forbidden", err)
	}
}

// With the credentials of a node, informd watches the Pods of that node: the Node authorizer
// permits no list without the node, and no look at a Pod that was deleted.
func TestPodsOfANode(t *testing.T) {
	c := cluster.Start(t, cluster.Options{NodeAuthorizer: true})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	node, err := c.AddUser("system:node:n1", "system:nodes")
	e2e.Must(t, err)
	k := e2e.PodKind()
	pods := client.Resource(k.GVR).Namespace(k.Namespace)
	create := func(name, node string) {
		object := &unstructured.Unstructured{Object: k.Fields(1)}
		object.SetAPIVersion("v1")
		object.SetKind("Pod")
		object.SetName(name)
		if node != "" {
			e2e.Must(t, unstructured.SetNestedField(object.Object, node, "spec", "nodeName"))
		}
		e2e.Create(t, pods, object)
	}
	create("first", "n1")
	create("elsewhere", "n2")
	d := e2e.StartInformd(t, node.Kubeconfig(), `- {resource: pods, fieldSelector: "spec.nodeName=n1"}`, "")
	d.WaitForLive(1)
	create("second", "n1")
	create("bound", "")
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": "bound"},
		"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": "n1"},
	}}
	e2e.Create(t, pods, binding, "binding")
	for _, name := range []string{"first", "second", "bound", "elsewhere"} {
		e2e.Patch(t, pods, name, k.Patch(1), k.Subresource)
		now := int64(0)
		e2e.Must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	}
	create("last", "n1")
	e2e.Eventually(t, "the last Pod", func() bool { return stories(d.Records())["pods last"] != "" })
	got := stories(d.Records())
	// Whether a Pod existed before it was bound is known if the authorizer has seen it by then.
	got["pods bound"] = strings.Replace(got["pods bound"], "entered", "added", 1)
	for key, story := range got { // the API server may write a Pod before it deletes it
		got[key] = strings.ReplaceAll(story, "modified modified", "modified")
	}
	if diff := cmp.Diff(map[string]string{
		"pods first": "snapshot modified deleted", "pods second": "added modified deleted", "pods bound": "added modified deleted", "pods last": "added",
	}, got); diff != "" {
		t.Errorf("events by object (-want +got):\n%s", diff)
	}
	checkReady(d, "core/pods")
}
