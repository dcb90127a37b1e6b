package informer_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// aPod is a Pod of 8.5 KB as an API server sends it, a third of it managedFields.
//
//go:embed testdata/pod.json
var aPod string

// podsPerNode is the number of Pods with one node in the index.
const podsPerNode = 100

// pod is a Pod with its own name, node, address and container.
func pod(tb testing.TB, n int) *unstructured.Unstructured {
	tb.Helper()
	text := strings.NewReplacer(
		"payments-cache-5bc7f604-00000004", fmt.Sprintf("pod-%08d", n),
		"6f1c9a52-7d3e-4b80-9c14-0b5e00000004", fmt.Sprintf("6f1c9a52-7d3e-4b80-9c14-0b5e%08d", n),
		"ip-10-20-188-77", fmt.Sprintf("ip-10-20-188-%d", n/podsPerNode),
		"10.61.74.39", fmt.Sprintf("10.61.%d.%d", n/256, n%256),
		"c31fdf5d9e49b265d08c015fb349a9e50d40d7e9cff292dca81d06bb85e4c2d2", fmt.Sprintf("%064x", uint64(n)*0x9E3779B97F4A7C15),
	).Replace(aPod)
	o := &unstructured.Unstructured{}
	must(tb, json.Unmarshal([]byte(text), &o.Object))
	return o
}

// BenchmarkStore compares reads, and the memory of 5,000 Pods, with the store of client-go.
func BenchmarkStore(b *testing.B) {
	node, err := informer.FieldIndex("spec.nodeName")
	must(b, err)
	own, err := informer.NewSharedIndexInformer(&rest.Config{}, pods(), nil, 0, cache.Indexers{"node": node})
	must(b, err)
	stock := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"node": func(o any) ([]string, error) {
		pod, ok := o.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("%T is no object", o)
		}
		name, _, err := unstructured.NestedString(pod.Object, "spec", "nodeName")
		return []string{name}, err
	}})
	for name, store := range map[string]cache.Indexer{"informd": own.GetIndexer(), "client-go": stock} {
		b.Run(name, func(b *testing.B) { benchmarkStore(b, store) })
	}
}

func benchmarkStore(b *testing.B, store cache.Indexer) {
	const objects = 5_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range objects {
		must(b, store.Add(pod(b, n)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	keys, nodes := store.ListKeys(), store.ListIndexFuncValues("node")
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, found, err := store.GetByKey(keys[n%objects]); !found || err != nil {
				b.Fatal(found, err)
			}
		}
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/objects, "B/object")
	})
	b.Run("list 100 by index", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if found, err := store.ByIndex("node", nodes[n%len(nodes)]); len(found) != podsPerNode || err != nil {
				b.Fatal(len(found), err)
			}
		}
	})
}
