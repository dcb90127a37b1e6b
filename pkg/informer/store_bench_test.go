package informer_test

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// pod is a Pod of some 3 KB.
func pod(n int) *unstructured.Unstructured {
	env := make([]any, 40)
	for i := range env {
		env[i] = map[string]any{"name": fmt.Sprintf("VARIABLE_%d", i), "value": fmt.Sprintf("value %d of Pod %d", i, n)}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "a", "name": fmt.Sprintf("pod-%d", n), "uid": fmt.Sprintf("uid-%d", n), "resourceVersion": "1"},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/image:1", "env": env}}},
	}}
}

// BenchmarkStore compares Get, and the memory of 5,000 Pods, with the store of client-go.
func BenchmarkStore(b *testing.B) {
	own, err := informer.NewSharedIndexInformer(&rest.Config{}, pods(), nil, 0, cache.Indexers{})
	if err != nil {
		b.Fatal(err)
	}
	for name, store := range map[string]cache.Store{"informd": own.GetStore(), "client-go": cache.NewStore(cache.MetaNamespaceKeyFunc)} {
		b.Run(name, func(b *testing.B) {
			const objects = 5_000
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for n := range objects {
				if err := store.Add(pod(n)); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			for n := 0; b.Loop(); n++ {
				if _, found, err := store.GetByKey(fmt.Sprintf("a/pod-%d", n%objects)); !found || err != nil {
					b.Fatal(found, err)
				}
			}
			b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/objects, "B/object")
		})
	}
}
