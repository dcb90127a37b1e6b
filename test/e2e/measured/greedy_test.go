package measured_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestLargeHistoryStopsNobody: a tenant changes a few large ConfigMaps so often that their
// history is larger than the journal. Every sink keeps up, so the history makes room, and
// the events of others arrive.
func TestLargeHistoryStopsNobody(t *testing.T) {
	const objects, changes = 8, 10 // 81 MB
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	maps := client.Resource(e2e.ConfigMapKind().GVR)
	const namespace, other = "greedy", "other"
	e2e.CreateNamespace(t, client, namespace)
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: fmt.Sprintf("- {resource: configmaps, mode: full, namespaces: [default, %s]}", namespace),
		Journal: e2e.LogJournal + ", maxBytes: 64MiB",
	})
	d.Start()
	d.WaitForLive(2)
	for n := range objects {
		large := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("large-", n)},
			"binaryData": map[string]any{"b": base64.StdEncoding.EncodeToString(e2e.Noise(690_000))}, // 0.92 MB in the object
		}}
		if _, err := maps.Namespace(namespace).Create(t.Context(), large, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for m := range changes {
			patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, m)
			if _, err := maps.Namespace(namespace).Patch(t.Context(), large.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	small := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": other}}}
	if _, err := maps.Namespace("default").Create(t.Context(), small, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, "the event of another namespace", func() bool {
		return slices.ContainsFunc(d.Records(), func(r e2e.Record) bool { return r.Name == other })
	})
	got := 0
	for _, r := range d.Records() {
		switch {
		case r.Op == "gap":
			t.Errorf("a gap: %s", r.Raw)
		case r.Namespace == namespace && len(r.Data.Object) > 900_000:
			got++
		}
	}
	if want := objects * (changes + 1); got != want {
		t.Errorf("%d events of the large objects, want %d", got, want)
	}
	if body, code, err := d.Get("/readyz"); code != 200 {
		t.Errorf("readyz: %d %s %v", code, body, err)
	}
}
