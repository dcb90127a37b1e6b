package watching_test

import (
	"fmt"
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

// TestTooLongName: the API server does not bound the names of Roles, and a tenant may create
// one with a longer name than informd takes. It becomes a dead letter. The events of all
// others arrive, before and after a restart, and its deletion changes nothing.
func TestTooLongName(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	roles := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())).
		Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}).Namespace("default")
	create := func(name string) {
		t.Helper()
		role := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": name}, "rules": []any{},
		}}
		if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create %.40s: %v", name, err)
		}
	}
	long := strings.Repeat("ä", 16_000)
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {group: rbac.authorization.k8s.io, resource: roles, namespaces: [default]}", Journal: e2e.LogJournal,
	})
	arrives := func(name string) {
		t.Helper()
		e2e.Eventually(t, name+" arrives", func() bool {
			return slices.ContainsFunc(d.Records(), func(r e2e.Record) bool { return r.Name == name })
		})
	}
	create("first")
	d.Start()
	d.WaitForLive(1)
	create(long)
	create("second")
	arrives("second")
	letters := e2e.ReadLetters(t, d, "source")
	if want := fmt.Sprintf("bytes, and the limit is %d", 8<<10); !strings.Contains(letters, want) || !strings.Contains(letters, long[:200]) {
		t.Errorf("dead letters of the source: %.600s", letters)
	}
	d.Kill()
	d.Start()
	create("third")
	arrives("third")
	if body, code, err := d.Get("/readyz"); code != 200 {
		t.Errorf("readyz: %d %s %v", code, body, err)
	}
	e2e.Must(t, roles.Delete(t.Context(), long, metav1.DeleteOptions{}))
	create("fourth")
	arrives("fourth")
	for _, r := range d.Records() {
		if len(r.Name) > 100 {
			t.Errorf("%s of a name of %d bytes", r.Op, len(r.Name))
		}
	}
}
