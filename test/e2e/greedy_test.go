package e2e_test

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
)

// TestLargeHistoryStopsNobody: a tenant changes a few large ConfigMaps so often that their
// history is larger than the journal. Every sink keeps up, so the history makes room, and
// the events of others arrive.
func TestLargeHistoryStopsNobody(t *testing.T) {
	const objects, changes = 8, 10 // 81 MB
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	maps := client.Resource(configMapKind().gvr)
	const namespace, other = "greedy", "other"
	createNamespace(t, client, namespace)
	d := newInformd(t, setup{
		kubeconfig: c.Kubeconfig(), resources: fmt.Sprintf("- {resource: configmaps, mode: full, namespaces: [default, %s]}", namespace),
		journal: logJournal + ", maxBytes: 64MiB",
	})
	d.start()
	d.waitForLive(2)
	for n := range objects {
		large := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("large-", n)},
			"binaryData": map[string]any{"b": base64.StdEncoding.EncodeToString(noise(690_000))}, // 0.92 MB in the object
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
	eventually(t, "the event of another namespace", func() bool {
		return slices.ContainsFunc(d.records(), func(r record) bool { return r.Name == other })
	})
	got := 0
	for _, r := range d.records() {
		switch {
		case r.Op == "gap":
			t.Errorf("a gap: %s", r.raw)
		case r.Namespace == namespace && len(r.Data.Object) > 900_000:
			got++
		}
	}
	if want := objects * (changes + 1); got != want {
		t.Errorf("%d events of the large objects, want %d", got, want)
	}
	if body, code, err := d.get("/readyz"); code != 200 {
		t.Errorf("readyz: %d %s %v", code, body, err)
	}
}
