package e2e_test

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// TestListOfNoObject: the list by which informd finds the newest revision is a consistent
// read of real API servers: empty, and never older than what was written before.
func TestListOfNoObject(t *testing.T) {
	for _, version := range []string{cluster.Oldest, cluster.Newest} {
		t.Run(version, func(t *testing.T) {
			c := cluster.Start(t, cluster.Options{Version: version, WatchCacheSizes: map[string]int{"secrets": 0}})
			client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
			inNamespaces, clusterWide := customKind("heads", false), customKind("wideheads", true)
			inNamespaces.install(t, client)
			clusterWide.install(t, client)
			for _, k := range []kind{
				podKind(), configMapKind(), inNamespaces, clusterWide,
				{gvr: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, kind: "Secret", namespace: "default", fields: func(int) map[string]any { return nil }},
			} {
				t.Run(k.gvr.Resource, func(t *testing.T) { k.listsNoObject(t, client) })
			}
		})
	}
}

func (k kind) listsNoObject(t *testing.T, client dynamic.Interface) {
	t.Helper()
	fields := "metadata.name=-informd-no-object-"
	if k.namespace != "" {
		fields = "metadata.namespace=informd-no-namespace," + fields
	}
	for i := range 20 {
		o := &unstructured.Unstructured{Object: k.fields(i)}
		if o.Object == nil {
			o.Object = make(map[string]any)
		}
		o.SetGroupVersionKind(k.gvr.GroupVersion().WithKind(k.kind))
		o.SetName(fmt.Sprint("head-", i))
		written, err := client.Resource(k.gvr).Namespace(k.namespace).Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := client.Resource(k.gvr).List(t.Context(), metav1.ListOptions{Limit: 1, FieldSelector: fields})
		if err != nil {
			t.Fatal(err)
		}
		at, err := strconv.ParseUint(written.GetResourceVersion(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		head, err := strconv.ParseUint(l.GetResourceVersion(), 10, 64)
		if err != nil || head < at || len(l.Items) > 0 {
			t.Errorf("revision %d with %d objects after a write at %d: %v", head, len(l.Items), at, err)
		}
	}
}
