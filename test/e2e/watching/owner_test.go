package watching_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// family is a Deployment, its ReplicaSet and a Pod of it, as controllers would make them.
type family struct {
	t      *testing.T
	client dynamic.Interface
	// links are what events of the Pod have to say of its owners.
	links []any
}

func apps(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: resource}
}

// create makes an object that is controlled by the one that was made before.
func (f *family) create(gvr schema.GroupVersionResource, kind, name string, spec map[string]any) *unstructured.Unstructured {
	f.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "apiVersion": gvr.GroupVersion().String(), "spec": spec}}
	o.SetName(name)
	o.SetLabels(map[string]string{"app": "web"})
	if len(f.links) > 0 {
		last, _ := f.links[0].(map[string]any)
		reference := map[string]any{"controller": true}
		maps.Copy(reference, last)
		o.Object["metadata"].(map[string]any)["ownerReferences"] = []any{reference} //nolint:forcetypeassert // SetName made it
	}
	made, err := f.client.Resource(gvr).Namespace("default").Create(f.t.Context(), o, metav1.CreateOptions{FieldManager: "painter"})
	e2e.Must(f.t, err)
	link := map[string]any{"kind": kind, "apiVersion": gvr.GroupVersion().String(), "name": name, "uid": string(made.GetUID())}
	f.links = append([]any{link}, f.links...)
	return made
}

func (f *family) remove(gvr schema.GroupVersionResource, name string) {
	f.t.Helper()
	if err := f.client.Resource(gvr).Namespace("default").Delete(f.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		f.t.Fatal(err)
	}
}

// TestActorAndOwner: with the permissions that `informd rbac` prints, events say who wrote
// an object last and which controllers it has, the deletion after theirs as well.
func TestActorAndOwner(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	f := &family{t: t, client: dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))}
	user, err := c.AddUser("system:serviceaccount:informd:informd", "system:serviceaccounts", "system:serviceaccounts:informd")
	e2e.Must(t, err)
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: user.Kubeconfig(), Journal: e2e.LogJournal, Resources: `
		- {resource: pods, fieldManager: true, ownerChain: true, keep: [status.message]}
		- {resource: configmaps, fieldManager: true, mode: metadata, namespaces: [default]}`})
	e2e.Apply(t, f.client, map[string]any{"kind": "Namespace"}, "v1", "informd")
	e2e.ApplyAll(t, f.client, d.Must("rbac"))
	granted := dynamic.NewForConfigOrDie(e2e.Fast(user.RESTConfig()))
	pods := f.client.Resource(e2e.PodKind().GVR).Namespace("default")
	waitUntilAllowed(t, granted.Resource(e2e.PodKind().GVR), granted.Resource(e2e.ConfigMapKind().GVR).Namespace("default"))
	if _, optional := d.Plan(0); len(optional) > 0 {
		t.Errorf("with all that is printed, a plan misses %q", optional)
	}
	d.Start()
	d.WaitForLive(2)

	container := map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/image:1"}}}
	template := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}, "spec": container}
	selecting := map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}, "template": template}
	f.create(apps("deployments"), "Deployment", "web", selecting)
	f.create(apps("replicasets"), "ReplicaSet", "web-1", selecting)
	owners := slices.Clone(f.links)
	made := f.create(e2e.PodKind().GVR, "Pod", "web-1-a", container)
	// While the owners are there: one that is gone before it is looked up ends the chain.
	e2e.Eventually(t, "the Pod is recorded", func() bool {
		return slices.ContainsFunc(d.Records(), func(r e2e.Record) bool { return r.Op == "added" && r.Name == "web-1-a" })
	})
	// managedFields have seconds.
	nextSecond := func() {
		t.Helper()
		last := time.Now().Truncate(time.Second)
		e2e.Eventually(t, "the next second", func() bool { return time.Since(last) > time.Second })
	}
	nextSecond()
	status := []byte(`{"status":{"message":"painted"}}`)
	if _, err := pods.Patch(t.Context(), "web-1-a", types.MergePatchType, status, metav1.PatchOptions{FieldManager: "watcher"}, "status"); err != nil {
		t.Fatal(err)
	}
	nextSecond()
	applied := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1-a","uid":%q,"annotations":{"a":"b"}}}`, made.GetUID())
	if _, err := pods.Patch(t.Context(), "web-1-a", types.ApplyPatchType, []byte(applied), metav1.PatchOptions{FieldManager: "gitops"}); err != nil {
		t.Fatal(err)
	}
	one := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "apiVersion": "v1"}}
	one.SetName("colors")
	one.SetLabels(map[string]string{"app": "web"}) // without any field nobody manages one
	if _, err := f.client.Resource(e2e.ConfigMapKind().GVR).Namespace("default").Create(t.Context(), one, metav1.CreateOptions{FieldManager: "painter"}); err != nil {
		t.Fatal(err)
	}
	f.remove(apps("deployments"), "web")
	f.remove(apps("replicasets"), "web-1")
	f.remove(e2e.PodKind().GVR, "web-1-a")

	want := []string{
		"added web-1-a: painter Update ", "modified web-1-a: watcher Update status", "modified web-1-a: gitops Apply ", "deleted web-1-a: nobody",
		"added colors: painter Update ",
	}
	var got []e2e.Record
	e2e.Eventually(t, "all events", func() bool {
		got = slices.DeleteFunc(d.Records(), func(r e2e.Record) bool { return r.Name != "web-1-a" && r.Name != "colors" })
		return slices.ContainsFunc(got, func(r e2e.Record) bool { return r.Op == "deleted" }) && slices.ContainsFunc(got, func(r e2e.Record) bool { return r.Name == "colors" })
	})
	slices.SortStableFunc(got, func(a, b e2e.Record) int { return strings.Compare(b.Resource, a.Resource) })
	var told []string
	for _, r := range got {
		var e struct {
			Data struct {
				FieldManager *struct{ Manager, Operation, Subresource, Time string }
				OwnerChain   []any
			}
		}
		e2e.Must(t, json.Unmarshal([]byte(r.Raw), &e))
		line := fmt.Sprintf("%s %s: nobody", r.Op, r.Name)
		if a := e.Data.FieldManager; a != nil {
			line = fmt.Sprintf("%s %s: %s %s %s", r.Op, r.Name, a.Manager, a.Operation, a.Subresource)
			if at, err := time.Parse(time.RFC3339, a.Time); err != nil || time.Since(at).Abs() > time.Hour {
				t.Errorf("%s at %q", line, a.Time)
			}
		}
		told = append(told, line)
		if owned := r.Kind == "Pod"; fmt.Sprint(e.Data.OwnerChain) != fmt.Sprint(owners) && owned || !owned && e.Data.OwnerChain != nil {
			t.Errorf("%s of %s has the owners %v, want %v", r.Op, r.Name, e.Data.OwnerChain, owners)
		}
	}
	// The end of a Pod may be announced in it first, which says no more of who wrote it.
	if told = slices.Compact(told); !slices.Equal(told, want) {
		t.Errorf("events\n%q, want\n%q", told, want)
	}
	d.Stop()
	d.CheckAllowed()
}
