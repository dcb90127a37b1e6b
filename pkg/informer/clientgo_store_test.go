package informer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// clientGoStores are the tests of stores, indices and listers. multipleValues and emptySets are those of
// TestMultiIndexKeys, TestGetIndexFuncValues and
// TestThreadSafeStoreAddKeepsNonEmptySetPostDeleteFromIndex as well.
func clientGoStores() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestCache":    storeOperations,
		"TestIndex":    indexOfObjects,
		"TestKeyError": keyErrors,
		"TestThreadSafeStoreDeleteRemovesEmptySetsFromIndex":     emptySets,
		"TestThreadSafeStoreIndexingFunctionsWithMultipleValues": multipleValues,
		"TestThreadSafeStoreRV":                                  storeVersions,
		"TestListAll":                                            listAll,
		"dynamiclister.TestNamespaceGetMethod":                   func(t *testing.T) { dynamicObjects(t).getInNamespace(t) },
		"dynamiclister.TestNamespaceListMethod":                  func(t *testing.T) { dynamicObjects(t).listNamespace(t) },
		"dynamiclister.TestListerGetMethod":                      func(t *testing.T) { dynamicObjects(t).get(t) },
		"dynamiclister.TestListerListMethod":                     func(t *testing.T) { dynamicObjects(t).list(t) },
		"metadatalister.TestNamespaceGetMethod":                  func(t *testing.T) { metadataObjects(t).getInNamespace(t) },
		"metadatalister.TestNamespaceListMethod":                 func(t *testing.T) { metadataObjects(t).listNamespace(t) },
		"metadatalister.TestListerGetMethod":                     func(t *testing.T) { metadataObjects(t).get(t) },
		"metadatalister.TestListerListMethod":                    func(t *testing.T) { metadataObjects(t).list(t) },
	}
}

// newStore returns the store of an informer that does not run.
func newStore(t *testing.T, indexers cache.Indexers) cache.Indexer {
	t.Helper()
	i, err := informer.NewSharedIndexInformer(&rest.Config{Host: "http://no.server"}, pods(), &corev1.Pod{}, 0, indexers)
	must(t, err)
	return i.GetIndexer()
}

// annotated returns a Pod with one annotation.
func annotated(name, value string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"value": value}}}
}

// byAnnotation is an index function of several values.
func byAnnotation(o any) ([]string, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no Pod", o)
	}
	return strings.Split(pod.Annotations["value"], ","), nil
}

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func storeOperations(t *testing.T) {
	s := newStore(t, nil)
	value := func() string {
		o, found, err := s.Get(annotated("foo", ""))
		must(t, err)
		if !found {
			return "none"
		}
		return o.(*corev1.Pod).Annotations["value"] //nolint:forcetypeassert // a panic fails the test, too
	}
	for n, step := range []struct {
		change func(any) error
		value  string
		want   string
	}{{s.Add, "bar", "bar"}, {s.Update, "baz", "baz"}, {s.Delete, "", "none"}} {
		must(t, step.change(annotated("foo", step.value)))
		if got := value(); got != step.want {
			t.Errorf("step %d: %q, want %q", n, got, step.want)
		}
	}
	for _, name := range []string{"a", "c", "e"} {
		must(t, s.Add(annotated(name, name)))
	}
	if got := podNames(s.List()); got != "a c e" {
		t.Errorf("list %q", got)
	}
	must(t, s.Replace([]any{annotated("foo", "foo"), annotated("bar", "bar")}, "0"))
	if got := podNames(s.List()); got != "bar foo" {
		t.Errorf("list %q after a replacement", got)
	}
}

func indexOfObjects(t *testing.T) {
	s := newStore(t, cache.Indexers{"by_val": byAnnotation})
	for name, value := range map[string]string{"a": "b", "c": "b", "e": "f", "g": "h"} {
		must(t, s.Add(annotated(name, value)))
	}
	for value, want := range map[string]string{"b": "a c", "f": "e", "h": "g"} {
		all, err := s.Index("by_val", annotated("", value))
		must(t, err)
		if got := podNames(all); got != want {
			t.Errorf("index of %s: %q, want %q", value, got, want)
		}
	}
}

// keyErrors expects client-go's KeyError for values without a key.
func keyErrors(t *testing.T) {
	s := newStore(t, nil)
	_, _, get := s.Get(100)
	for name, err := range map[string]error{"add": s.Add(100), "delete": s.Delete(100), "get": get, "replace": s.Replace([]any{100}, "1")} {
		var key cache.KeyError
		if !errors.As(err, &key) || key.Obj != 100 || key.Err == nil || !errors.Is(err, key.Err) {
			t.Errorf("%s: error %#v", name, err)
		}
	}
}

// wantIndex compares an index with the keys of each value.
func wantIndex(t *testing.T, s cache.Indexer, index string, want map[string]string) {
	t.Helper()
	for value, keys := range want {
		found, err := s.IndexKeys(index, value)
		must(t, err)
		slices.Sort(found)
		if got := strings.Join(found, " "); got != keys {
			t.Errorf("keys of %s: %q, want %q", value, got, keys)
		}
		all, err := s.ByIndex(index, value)
		must(t, err)
		if got := podNames(all); got != keys {
			t.Errorf("objects of %s: %q, want %q", value, got, keys)
		}
	}
}

func emptySets(t *testing.T) {
	s := newStore(t, cache.Indexers{"i": byAnnotation})
	must(t, s.Add(annotated("key", "value")))
	if got := s.ListIndexFuncValues("i"); !slices.Equal(got, []string{"value"}) {
		t.Errorf("values %v", got)
	}
	must(t, s.Delete(annotated("key", "")))
	if got := s.ListIndexFuncValues("i"); len(got) > 0 {
		t.Errorf("values %v after the deletion", got)
	}
}

func multipleValues(t *testing.T) {
	s := newStore(t, cache.Indexers{"i": byAnnotation})
	for _, step := range []struct {
		key, value    string // a deletion if value is empty
		foo, bar, baz string
	}{
		{"key1", "foo", "key1", "", ""},
		{"key2", "bar", "key1", "key2", ""},
		{"key2", "foo,bar", "key1 key2", "key2", ""},
		{"key1", "foo,bar", "key1 key2", "key1 key2", ""},
		{"key3", "foo,bar,baz", "key1 key2 key3", "key1 key2 key3", "key3"},
		{"key1", "foo", "key1 key2 key3", "key2 key3", "key3"},
		{"key2", "bar", "key1 key3", "key2 key3", "key3"},
		{"key1", "", "key3", "key2 key3", "key3"},
		{"key3", "", "", "key2", ""},
	} {
		change := s.Update
		if step.value == "" {
			change = s.Delete
		}
		must(t, change(annotated(step.key, step.value)))
		wantIndex(t, s, "i", map[string]string{"foo": step.foo, "bar": step.bar, "baz": step.baz})
	}
}

func storeVersions(t *testing.T) {
	at := func(name, rv string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: rv}}
	}
	wants := func(t *testing.T, s cache.Store, want string) {
		t.Helper()
		if got := s.LastStoreSyncResourceVersion(); got != want {
			t.Errorf("version %q, want %q", got, want)
		}
	}
	t.Run("Initial state", func(t *testing.T) { wants(t, newStore(t, nil), "") })
	t.Run("Add Update and Delete", func(t *testing.T) {
		s := newStore(t, nil)
		must(t, s.Add(at("key1", "10")))
		wants(t, s, "10")
		must(t, s.Add(at("key3", "10")))
		wants(t, s, "10")
		must(t, s.Update(at("key4", "20")))
		wants(t, s, "20")
		must(t, s.Delete(at("key4", "30")))
		wants(t, s, "30")
		s.Bookmark("40")
		wants(t, s, "40")
		must(t, s.Delete(cache.DeletedFinalStateUnknown{Key: "key1"}))
		wants(t, s, "40")
	})
	t.Run("Replace", func(t *testing.T) {
		s := newStore(t, nil)
		must(t, s.Add(at("key1", "10")))
		must(t, s.Replace([]any{at("key3", "40"), at("key2", "30")}, "50"))
		wants(t, s, "50")
	})
	t.Run("Delete", func(t *testing.T) {
		s := newStore(t, nil)
		must(t, s.Add(at("key1", "10")))
		must(t, s.Delete(at("key1", "20")))
		wants(t, s, "20")
	})
}

func listAll(t *testing.T) {
	const all, matching = 2000, 200
	for name, of := range map[string]struct {
		selector labels.Selector
		want     int
	}{
		"subset match": {labels.SelectorFromSet(labels.Set{"match": "true"}), matching},
		"all match":    {labels.Everything(), all},
		"no match":     {labels.SelectorFromSet(labels.Set{"match": "never"}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			for n := range all {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("obj-", n)}}
				if n < matching {
					pod.Labels = map[string]string{"match": "true"}
				}
				must(t, s.Add(pod))
			}
			found := 0
			must(t, cache.ListAll(s, of.selector, func(any) { found++ }))
			if found != of.want {
				t.Errorf("%d objects, want %d", found, of.want)
			}
		})
	}
}

// object returns an unstructured object.
func object(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "group/version", "kind": "TheKind", "metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

// metadataOf returns the metadata of an object.
func metadataOf(namespace, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

// filled returns the informer of a factory that does not run, with objects.
func filled[T runtime.Object](t *testing.T, of func(*informer.Factory) informer.GenericInformer, all ...T) informer.GenericInformer {
	t.Helper()
	f, err := informer.NewFactory(&rest.Config{Host: "http://no.server"}, informer.Options{})
	must(t, err)
	i := of(f)
	for _, o := range all {
		must(t, i.Informer().GetIndexer().Add(o))
	}
	return i
}

// lister is what client-go's typed listers have in common.
type lister[T any] interface {
	List(selector labels.Selector) ([]T, error)
	Get(name string) (T, error)
}

// storedObjects are three objects in a store, client-go's typed lister of it, and the factory's.
type storedObjects[T runtime.Object] struct {
	object    func(namespace, name string) T
	typed     lister[T]
	namespace lister[T] // of ns-foo
	generic   cache.GenericLister
}

func dynamicObjects(t *testing.T) storedObjects[*unstructured.Unstructured] {
	t.Helper()
	i := filled(t, func(f *informer.Factory) informer.GenericInformer { return f.ForResource(core("kinds")) }, stored(object)...)
	typed := dynamiclister.New(i.Informer().GetIndexer(), core("kinds"))
	return storedObjects[*unstructured.Unstructured]{object, typed, typed.Namespace("ns-foo"), i.Lister()}
}

func metadataObjects(t *testing.T) storedObjects[*metav1.PartialObjectMetadata] {
	t.Helper()
	i := filled(t, func(f *informer.Factory) informer.GenericInformer { return f.ForMetadata(core("kinds")) }, stored(metadataOf)...)
	typed := metadatalister.New(i.Informer().GetIndexer(), core("kinds"))
	return storedObjects[*metav1.PartialObjectMetadata]{metadataOf, typed, typed.Namespace("ns-foo"), i.Lister()}
}

// stored are the objects, in the order of their keys.
func stored[T any](object func(namespace, name string) T) []T {
	return []T{object("", "name-clusterwide"), object("ns-foo", "name-foo"), object("ns-foo", "name-foo1")}
}

func (s storedObjects[T]) getInNamespace(t *testing.T) {
	got, err := s.namespace.Get("name-foo1")
	o, failed := s.generic.ByNamespace("ns-foo").Get("name-foo1")
	s.same(t, s.object("ns-foo", "name-foo1"), got, err, o, failed)
	if _, err := s.namespace.Get("none"); err == nil {
		t.Error("found an object that does not exist")
	}
}

func (s storedObjects[T]) listNamespace(t *testing.T) {
	got, err := s.namespace.List(labels.Everything())
	all, failed := s.generic.ByNamespace("ns-foo").List(labels.Everything())
	s.listed(t, stored(s.object)[1:], got, err, all, failed)
}

func (s storedObjects[T]) get(t *testing.T) {
	got, err := s.typed.Get("name-clusterwide")
	o, failed := s.generic.Get("name-clusterwide")
	s.same(t, s.object("", "name-clusterwide"), got, err, o, failed)
	if _, err := s.typed.Get("name-foo"); err == nil {
		t.Error("found an object of a namespace by its name")
	}
}

func (s storedObjects[T]) list(t *testing.T) {
	got, err := s.typed.List(labels.Everything())
	all, failed := s.generic.List(labels.Everything())
	s.listed(t, stored(s.object), got, err, all, failed)
}

// same compares the results of client-go's typed lister and of the factory's lister.
func (storedObjects[T]) same(t *testing.T, want, got T, err error, generic any, genericErr error) {
	t.Helper()
	must(t, err)
	must(t, genericErr)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(any(want), generic); diff != "" {
		t.Error(diff)
	}
}

func (storedObjects[T]) listed(t *testing.T, want, got []T, err error, generic []runtime.Object, genericErr error) {
	t.Helper()
	must(t, err)
	must(t, genericErr)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(generic) != len(want) {
		t.Errorf("%d objects, want %d", len(generic), len(want))
	}
}
