package informer_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

func fieldIndex(t *testing.T, paths ...string) cache.IndexFunc {
	t.Helper()
	index, err := informer.FieldIndex(paths...)
	must(t, err)
	return index
}

func indexed(n int, node string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": "a", "name": fmt.Sprintf("pod-%d", n), "uid": fmt.Sprintf("uid-%d", n), "resourceVersion": "1",
			"labels":          map[string]any{"example.com/app": "shop<&>", "empty": ""},
			"ownerReferences": []any{map[string]any{"uid": "owner-1", "name": "x"}, map[string]any{"uid": "owner-2", "name": "y"}},
		},
		"spec": map[string]any{
			"nodeName": node, "priority": int64(7), "hostNetwork": true, "nothing": nil,
			"volumes": []any{map[string]any{"secret": map[string]any{"secretName": "s"}}, map[string]any{"secret": map[string]any{"secretName": "s"}}, map[string]any{"emptyDir": map[string]any{}}},
		},
	}}
}

// TestFieldIndexes: the values come from the JSON in the store, and are those of a function that
// gets the object, with objects before the index, after it, changed and removed.
func TestFieldIndexes(t *testing.T) {
	i, err := informer.NewSharedIndexInformer(&rest.Config{}, pods(), nil, 0, cache.Indexers{"node": fieldIndex(t, "spec.nodeName")})
	must(t, err)
	store := i.GetIndexer()
	for n := range 4 {
		must(t, store.Add(indexed(n, fmt.Sprintf("node-%d", n%2))))
	}
	called := 0
	own := func(o any) ([]string, error) {
		called++
		pod, ok := o.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("%T is no object", o)
		}
		node, _, err := unstructured.NestedString(pod.Object, "spec", "nodeName")
		return []string{node}, err
	}
	err = i.AddIndexers(cache.Indexers{
		"own": own, "app": informer.LabelIndex("example.com/app"), "empty": informer.LabelIndex("empty"), "owner": informer.OwnerIndex(),
		"secret": fieldIndex(t, "spec.volumes[].secret.secretName"), "several": fieldIndex(t, "spec.priority", "spec.hostNetwork", "spec.nothing", "spec.volumes"),
	})
	if err != nil || called != 4 {
		t.Fatalf("%d calls, %v", called, err)
	}
	if err := i.AddIndexers(cache.Indexers{"own": own}); err == nil {
		t.Error("two indices have one name")
	}
	must(t, store.Update(indexed(0, "node-1")))
	must(t, store.Delete(indexed(3, "")))
	for name, want := range map[string]map[string][]string{
		"node":    {"node-0": {"a/pod-2"}, "node-1": {"a/pod-0", "a/pod-1"}},
		"own":     {"node-0": {"a/pod-2"}, "node-1": {"a/pod-0", "a/pod-1"}},
		"app":     {"shop<&>": {"a/pod-0", "a/pod-1", "a/pod-2"}},
		"empty":   {"": {"a/pod-0", "a/pod-1", "a/pod-2"}},
		"owner":   {"owner-1": {"a/pod-0", "a/pod-1", "a/pod-2"}, "owner-2": {"a/pod-0", "a/pod-1", "a/pod-2"}, "owner-3": {}},
		"secret":  {"s": {"a/pod-0", "a/pod-1", "a/pod-2"}},
		"several": {"7": {"a/pod-0", "a/pod-1", "a/pod-2"}, "true": {"a/pod-0", "a/pod-1", "a/pod-2"}, "null": {}},
	} {
		for value, keys := range want {
			got, err := store.IndexKeys(name, value)
			if slices.Sort(got); err != nil || !slices.Equal(got, keys) {
				t.Errorf("index %s of %q: %v, %v; want %v", name, value, got, err, keys)
			}
		}
	}
	if found, err := store.Index("node", indexed(9, "node-1")); err != nil || len(found) != 2 {
		t.Errorf("objects on the node of another object: %d, %v", len(found), err)
	}
}

// TestFieldIndexesInOtherStores: the functions take objects as well.
func TestFieldIndexesInOtherStores(t *testing.T) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{"node": fieldIndex(t, "spec.nodeName"), "owner": informer.OwnerIndex()})
	for _, o := range []any{
		indexed(1, "n"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "typed", OwnerReferences: []metav1.OwnerReference{{UID: "owner-1"}}}, Spec: corev1.PodSpec{NodeName: "n"}},
	} {
		must(t, store.Add(o))
	}
	for name, value := range map[string]string{"node": "n", "owner": "owner-1"} {
		if keys, err := store.IndexKeys(name, value); err != nil || len(keys) != 2 {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
	if _, err := informer.FieldIndex("spec..x"); err == nil {
		t.Error("a wrong path is accepted")
	}
	if _, err := fieldIndex(t, "spec")("text"); err == nil {
		t.Error("a text is accepted")
	}
}
