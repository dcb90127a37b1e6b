package informer_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/fieldpath"
	"github.com/informd/informd/pkg/informer"
)

func storeFor(t *testing.T, example runtime.Object) cache.Store {
	t.Helper()
	i, err := informer.NewSharedIndexInformer(&rest.Config{}, pods(), example, 0, cache.Indexers{})
	if err != nil {
		t.Fatal(err)
	}
	return i.GetStore()
}

// random is a value of random shape. Few keys make paths meet values.
func random(r *rand.Rand, depth int) any {
	kind := r.IntN(8)
	if depth == 0 {
		kind = r.IntN(4)
	}
	switch kind {
	case 0:
		return r.Int64()
	case 1:
		return []any{nil, true, 0.5, ""}[r.IntN(4)]
	case 2, 3:
		return strings.Repeat(`a "text" <é`, r.IntN(3))
	case 4, 5:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = random(r, depth-1)
		}
		return list
	default:
		return randomObject(r, depth-1)
	}
}

func randomKey(r *rand.Rand) string { return []string{"a", "b", "c", "example.com/d", `"`}[r.IntN(5)] }

func randomObject(r *rand.Rand, depth int) map[string]any {
	o := make(map[string]any)
	for range r.IntN(5) {
		o[randomKey(r)] = random(r, depth)
	}
	return o
}

// step is a step of a path: the key, "*" or "[]".
type step string

func randomPath(r *rand.Rand) (steps []step, text string) {
	var path []byte
	for n := range 1 + r.IntN(4) {
		switch kind := r.IntN(6); {
		case kind == 0 && n > 0:
			steps, path = append(steps, "[]"), fieldpath.AppendElement(path)
		case kind == 1:
			steps = append(steps, "*")
			if n > 0 {
				path = append(path, '.')
			}
			path = append(path, '*')
		default:
			key := randomKey(r)
			if n == 0 && kind < 4 {
				key = "spec"
			}
			steps, path = append(steps, step(key)), fieldpath.AppendKey(path, key)
		}
	}
	return steps, string(path)
}

// pruned returns what the paths keep of a value, and whether it stays.
func pruned(v any, paths [][]step) (kept any, stays bool) {
	if slices.ContainsFunc(paths, func(p []step) bool { return len(p) == 0 }) {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		if !slices.ContainsFunc(paths, func(p []step) bool { return p[0] != "[]" }) {
			return nil, false
		}
		o := make(map[string]any)
		for key, value := range v {
			var inner [][]step
			for _, p := range paths {
				if p[0] == "*" || p[0] == step(key) {
					inner = append(inner, p[1:])
				}
			}
			if member, stays := pruned(value, inner); stays {
				o[key] = member
			}
		}
		return o, true
	case []any:
		list := make([]any, 0)
		for _, value := range v {
			var inner [][]step
			for _, p := range paths {
				if p[0] == "[]" {
					inner = append(inner, p[1:])
				} else {
					inner = append(inner, p)
				}
			}
			if element, stays := pruned(value, inner); stays {
				list = append(list, element)
			}
		}
		return list, len(paths) > 0
	default:
		return nil, false
	}
}

// TestForEachIsDecodeAndPrune expects the same as of a decoded object of which the other fields are
// removed.
func TestForEachIsDecodeAndPrune(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	store := storeFor(t, nil)
	for round := range 300 {
		objects := make([]any, 20)
		for n := range objects {
			o := randomObject(r, 4)
			o["metadata"] = map[string]any{"namespace": "a", "name": fmt.Sprintf("o-%d", n), "resourceVersion": "1", "labels": map[string]any{"b": "c"}}
			o["spec"], o["apiVersion"], o["kind"] = random(r, 4), "v1", "Pod"
			objects[n] = &unstructured.Unstructured{Object: o}
		}
		if err := store.Replace(objects, "1"); err != nil {
			t.Fatal(err)
		}
		paths, fields := [][]step{{"metadata", "namespace"}, {"metadata", "name"}}, make([]string, r.IntN(4))
		for n := range fields {
			var steps []step
			steps, fields[n] = randomPath(r)
			paths = append(paths, steps)
		}
		called := 0
		err := informer.ForEach(store, fields, func(key types.NamespacedName, o *unstructured.Unstructured) bool {
			called++
			full, found, err := store.GetByKey(key.String())
			if !found || err != nil {
				t.Fatal(key, found, err)
			}
			want, _ := pruned(full.(*unstructured.Unstructured).Object, paths) //nolint:forcetypeassert // as it was added
			if !reflect.DeepEqual(want, any(o.Object)) {
				t.Fatalf("round %d, fields %q, object %v:\n got %v\nwant %v", round, fields, full, o.Object, want)
			}
			return true
		})
		if err != nil || called != len(objects) {
			t.Fatal(called, err)
		}
	}
}

// TestForEach: typed and metadata stores, clusterwide objects, the end of the loop, and errors.
func TestForEach(t *testing.T) {
	typed, metadata := storeFor(t, &corev1.Pod{}), storeFor(t, &metav1.PartialObjectMetadata{})
	for n := range 3 {
		meta := metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("pod-%d", n), Labels: map[string]string{"app": "shop"}}
		if err := typed.Add(&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "n", HostNetwork: true}}); err != nil {
			t.Fatal(err)
		}
		meta.Namespace = ""
		if err := metadata.Add(&metav1.PartialObjectMetadata{ObjectMeta: meta}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		store cache.Store
		want  map[string]any
	}{
		"typed":    {typed, map[string]any{"metadata": map[string]any{"namespace": "a", "name": "pod-1", "labels": map[string]any{"app": "shop"}}, "spec": map[string]any{"nodeName": "n"}}},
		"metadata": {metadata, map[string]any{"metadata": map[string]any{"name": "pod-1", "labels": map[string]any{"app": "shop"}}}},
	} {
		found := 0
		err := informer.ForEach(tt.store, []string{"spec.nodeName", "metadata.labels"}, func(key types.NamespacedName, o *unstructured.Unstructured) bool {
			if key.Name == "pod-1" && key.Namespace == o.GetNamespace() && reflect.DeepEqual(o.Object, tt.want) {
				found++
			}
			return true
		})
		if err != nil || found != 1 {
			t.Errorf("%s: %d objects as wanted, %v", name, found, err)
		}
		called := 0
		if err := informer.ForEach(tt.store, nil, func(types.NamespacedName, *unstructured.Unstructured) bool {
			called++
			return false
		}); err != nil || called != 1 {
			t.Errorf("%s: false does not end the loop: %d calls, %v", name, called, err)
		}
	}
	none := func(types.NamespacedName, *unstructured.Unstructured) bool {
		t.Error("called in spite of an error")
		return true
	}
	if err := informer.ForEach(typed, []string{"spec..x"}, none); err == nil {
		t.Error("a wrong path is accepted")
	}
	if err := informer.ForEach(cache.NewStore(cache.MetaNamespaceKeyFunc), nil, none); err == nil {
		t.Error("another store is accepted")
	}
}

// BenchmarkForEach reads two fields of 1,000 Pods.
func BenchmarkForEach(b *testing.B) {
	i, err := informer.NewSharedIndexInformer(&rest.Config{}, pods(), nil, 0, cache.Indexers{})
	if err != nil {
		b.Fatal(err)
	}
	const objects = 1_000
	for n := range objects {
		if err := i.GetStore().Add(pod(b, n)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		running := 0
		if err := informer.ForEach(i.GetStore(), []string{"spec.nodeName", "status.phase"}, func(_ types.NamespacedName, o *unstructured.Unstructured) bool {
			if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase == "Running" {
				running++
			}
			return true
		}); err != nil || running != objects {
			b.Fatal(running, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*objects), "ns/object")
}
