package informer_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// typedPods returns the store of an informer that does not run, with Pods. Each has its own labels.
func typedPods(tb testing.TB, count int, indexers cache.Indexers) cache.Indexer {
	tb.Helper()
	i, err := informer.NewSharedIndexInformer(&rest.Config{}, pods(), &corev1.Pod{}, 0, indexers)
	must(tb, err)
	fill(tb, i.GetIndexer(), count)
	return i.GetIndexer()
}

// aPod is a Pod of 8.5 KB as an API server sends it, a third of it managedFields.
//
//go:embed testdata/pod.json
var aPod string

// podNamespaces is the number of namespaces that fill uses.
const podNamespaces = 10

func fill(tb testing.TB, store cache.Indexer, count int) {
	tb.Helper()
	for n := range count {
		text := strings.NewReplacer(
			"payments-cache-5bc7f604-00000004", fmt.Sprintf("pod-%08d", n), "9c14-0b5e00000004", fmt.Sprintf("9c14-0b5e%08d", n),
		).Replace(aPod)
		p := &corev1.Pod{}
		must(tb, json.Unmarshal([]byte(text), p))
		p.Namespace = fmt.Sprintf("ns-%d", n%podNamespaces)
		p.Labels["pod"] = p.Name
		must(tb, store.Add(p))
	}
}

func selector(tb testing.TB, text string) labels.Selector {
	tb.Helper()
	s, err := labels.Parse(text)
	must(tb, err)
	return s
}

// TestListersSelect expects what client-go's lister returns of its own store, and the labels that an
// object has now.
func TestListersSelect(t *testing.T) {
	const count = 50
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	stock := cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)
	fill(t, stock, count)
	stores := map[string]cache.Indexer{"client-go": stock, "indexed": typedPods(t, count, byNamespace), "no index": typedPods(t, count, nil)}
	for _, store := range stores {
		changed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-3", Name: "changed", Labels: map[string]string{"team": "a"}}}
		must(t, store.Add(changed))
		changed = changed.DeepCopy()
		changed.Labels = map[string]string{"team": "b", "empty": "", "quoted": `"\`}
		must(t, store.Update(changed))
		must(t, store.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-4", Name: "without-labels"}}))
	}
	quoted := labels.SelectorFromSet(labels.Set{"quoted": `"\`})
	for _, namespace := range []string{"", "ns-3", "ns-4", "none"} {
		for _, s := range []labels.Selector{
			labels.Everything(), labels.Nothing(), quoted, selector(t, "team=a"), selector(t, "team=b"), selector(t, "!team"), selector(t, "team!=b"),
			selector(t, "empty="), selector(t, "pod in (pod-00000003,pod-00000004)"), selector(t, "none"),
		} {
			var want []string
			must(t, cache.ListAllByNamespace(stock, namespace, s, func(o any) { want = append(want, nameOf(o)) }))
			slices.Sort(want)
			for name, store := range stores {
				list, err := informer.NewLister[*corev1.Pod](store, pods().GroupResource()).Namespace(namespace).List(s)
				must(t, err)
				var got []string
				for _, p := range list {
					got = append(got, p.Name)
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s: %q in namespace %q: %q, want %q", name, s, namespace, got, want)
				}
				got = nil // of client-go's typed, dynamic and metadata listers
				must(t, cache.ListAllByNamespace(store, namespace, s, func(o any) { got = append(got, nameOf(o)) }))
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s, client-go's lister: %q in namespace %q: %q, want %q", name, s, namespace, got, want)
				}
			}
		}
	}
}

// TestListersDecodeWhatTheyReturn counts allocations: an object takes hundreds.
func TestListersDecodeWhatTheyReturn(t *testing.T) {
	const count, mostOfOne = 200, 2000
	store := typedPods(t, count, nil)
	of := informer.NewLister[*corev1.Pod](store, pods().GroupResource())
	one, none := selector(t, "pod=pod-00000003"), selector(t, "app.kubernetes.io/name=other")
	for name, list := range map[string]func() (int, error){
		"one": func() (int, error) {
			all, err := of.List(one)
			return len(all), err
		},
		"one of a namespace": func() (int, error) {
			all, err := of.Namespace("ns-3").List(one)
			return len(all), err
		},
		"no namespace": func() (int, error) {
			all, err := of.Namespace("none").List(labels.Everything())
			return len(all) + 1, err
		},
		"none": func() (int, error) {
			all, err := of.List(none)
			return len(all) + 1, err
		},
		"client-go's lister of a namespace": func() (found int, err error) {
			return 1, cache.ListAllByNamespace(store, "none", labels.Everything(), func(any) { found++ })
		},
	} {
		if n := testing.AllocsPerRun(5, func() {
			if found, err := list(); found != 1 || err != nil {
				t.Fatal(name, found, err)
			}
		}); n > mostOfOne {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestListerGets(t *testing.T) {
	of := informer.NewLister[*corev1.Pod](typedPods(t, 1, nil), pods().GroupResource())
	for _, get := range []func() (*corev1.Pod, error){
		func() (*corev1.Pod, error) { return of.Get("ns-0/pod-00000000") },
		func() (*corev1.Pod, error) { return of.Namespace("ns-0").Get("pod-00000000") },
	} {
		if p, err := get(); err != nil || p.Name != "pod-00000000" {
			t.Errorf("got %v, %v", p, err)
		}
	}
	if _, err := of.Namespace("ns-1").Get("pod-00000000"); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
	nodes := informer.NewLister[*corev1.Node](typedPods(t, 1, nil), pods().GroupResource())
	if _, err := nodes.List(labels.Everything()); err == nil {
		t.Error("a Pod is a Node")
	}
}

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
