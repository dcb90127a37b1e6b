package core_test

import (
	"fmt"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestListOfNoObject: the list by which informd finds the newest revision is a consistent
// read of real API servers: empty, and never older than what was written before.
func TestListOfNoObject(t *testing.T) {
	for _, version := range []string{cluster.Oldest, cluster.Newest} {
		t.Run(version, func(t *testing.T) {
			c := cluster.Start(t, cluster.Options{Version: version, WatchCacheSizes: map[string]int{"secrets": 0}})
			client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
			inNamespaces, clusterWide := e2e.CustomKind("heads", false), e2e.CustomKind("wideheads", true)
			inNamespaces.Install(t, client)
			clusterWide.Install(t, client)
			for _, k := range []e2e.Kind{
				e2e.PodKind(), e2e.ConfigMapKind(), inNamespaces, clusterWide,
				{GVR: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret", Namespace: "default", Fields: func(int) map[string]any { return nil }},
			} {
				t.Run(k.GVR.Resource, func(t *testing.T) { listsNoObject(k, t, client) })
			}
		})
	}
}

func listsNoObject(k e2e.Kind, t *testing.T, client dynamic.Interface) {
	t.Helper()
	fields := "metadata.name=-informd-no-object-"
	if k.Namespace != "" {
		fields = "metadata.namespace=informd-no-namespace," + fields
	}
	for i := range 20 {
		o := &unstructured.Unstructured{Object: k.Fields(i)}
		if o.Object == nil {
			o.Object = make(map[string]any)
		}
		o.SetGroupVersionKind(k.GVR.GroupVersion().WithKind(k.Kind))
		o.SetName(fmt.Sprint("head-", i))
		written, err := client.Resource(k.GVR).Namespace(k.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		e2e.Must(t, err)
		l, err := client.Resource(k.GVR).List(t.Context(), metav1.ListOptions{Limit: 1, FieldSelector: fields})
		e2e.Must(t, err)
		at, err := strconv.ParseUint(written.GetResourceVersion(), 10, 64)
		e2e.Must(t, err)
		head, err := strconv.ParseUint(l.GetResourceVersion(), 10, 64)
		if err != nil || head < at || len(l.Items) > 0 {
			t.Errorf("revision %d with %d objects after a write at %d: %v", head, len(l.Items), at, err)
		}
	}
}
