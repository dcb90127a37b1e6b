package informer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// clientGoStores are the tests of stores and indices. likeClientGo is that of TestIndex, TestMultiIndexKeys,
// TestGetIndexFuncValues, TestListAll, TestThreadSafeStoreRV and the other ones of TestThreadSafeStore as well, and
// TestFieldIndexes that of TestIndexer.
func clientGoStores() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"TestCache":    likeClientGo,
		"TestKeyError": keyErrors,
	}
}

// newStore returns the store of an informer that does not run.
func newStore(t *testing.T, indexers cache.Indexers) cache.Indexer {
	t.Helper()
	i, err := informer.NewSharedIndexInformer(&rest.Config{Host: "http://no.server"}, pods(), &corev1.Pod{}, 0, indexers)
	must(t, err)
	return i.GetIndexer()
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

// likeClientGo has random changes happen to a store and to client-go's. All reads of both are the same.
func likeClientGo(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed ", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	indexers := func() cache.Indexers {
		return cache.Indexers{"i": byAnnotation, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	}
	stock := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers()) // as informers make it
	stores := [2]cache.Indexer{stock, newStore(t, indexers())}
	pod := func(rv int) *corev1.Pod {
		values := []string{"", "foo", "bar", "foo,bar", "foo,bar,baz"}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("ns-", r.IntN(2)), Name: fmt.Sprint("pod-", r.IntN(4)), ResourceVersion: strconv.Itoa(rv),
			Annotations: map[string]string{"value": values[r.IntN(len(values))]},
		}}
	}
	compare := func(what string) {
		t.Helper()
		if diff := cmp.Diff(readsOf(t, stores[0]), readsOf(t, stores[1])); diff != "" {
			t.Fatalf("after %s (-client-go +got):\n%s", what, diff)
		}
	}
	compare("the beginning")
	for rv := range 400 {
		o, version := pod(rv), strconv.Itoa(rv)
		_, exists, err := stock.Get(o)
		must(t, err)
		change, what := func(s cache.Indexer) error { return s.Update(o) }, "update"
		switch n := r.IntN(20); {
		case n == 0:
			list := []any{pod(rv), pod(rv - 1)}
			change, what = func(s cache.Indexer) error { return s.Replace(list, version) }, "replace"
		case n == 1:
			change, what = func(s cache.Indexer) error { s.Bookmark(version); return nil }, "bookmark"
		case n == 2:
			key := cache.DeletedFinalStateUnknown{Key: o.Namespace + "/" + o.Name}
			change, what = func(s cache.Indexer) error { return s.Delete(key) }, "delete by key"
		case exists && n < 8:
			change, what = func(s cache.Indexer) error { return s.Delete(o) }, "delete"
		case !exists:
			change, what = func(s cache.Indexer) error { return s.Add(o) }, "add"
		}
		for _, s := range stores {
			must(t, change(s))
		}
		compare(fmt.Sprint(what, " ", rv, " ", o.Namespace, "/", o.Name))
	}
}

// readsOf is all that a store of the Pods of likeClientGo answers, sorted.
func readsOf(t *testing.T, s cache.Indexer) map[string]any {
	t.Helper()
	texts := func(objects []any, err error) []string {
		must(t, err)
		all := make([]string, len(objects))
		for n, o := range objects {
			pod := o.(*corev1.Pod) //nolint:forcetypeassert // a panic fails the test, too
			all[n] = fmt.Sprint(pod.Namespace, "/", pod.Name, " ", pod.ResourceVersion, " ", pod.Annotations)
		}
		slices.Sort(all)
		return all
	}
	sorted := func(keys []string, err error) []string {
		must(t, err)
		return slices.Sorted(slices.Values(keys))
	}
	reads := map[string]any{
		"list": texts(s.List(), nil), "keys": sorted(s.ListKeys(), nil), "version": s.LastStoreSyncResourceVersion(),
		"values": sorted(s.ListIndexFuncValues("i"), nil), "namespaces": sorted(s.ListIndexFuncValues(cache.NamespaceIndex), nil),
	}
	for _, value := range []string{"", "foo", "bar", "baz", "none"} {
		reads["keys of "+value] = sorted(s.IndexKeys("i", value))
		reads["objects of "+value] = texts(s.ByIndex("i", value))
		like := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"value": value + ",foo"}}}
		reads["like "+value] = texts(s.Index("i", like))
	}
	for n := range 4 {
		o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-0", Name: fmt.Sprint("pod-", n)}}
		key := "ns-0/" + o.Name
		byKey, found, err := s.GetByKey(key)
		must(t, err)
		byObject, exists, err := s.Get(o)
		must(t, err)
		reads[key] = []any{found, exists, byKey, byObject}
	}
	return reads
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
