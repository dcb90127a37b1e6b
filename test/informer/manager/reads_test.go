package manager_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// variants are settings of controller-runtime's cache.
func variants() map[string]cache.Options {
	shallow, period := true, time.Second
	x := labels.SelectorFromSet(labels.Set{"x": "1"})
	return map[string]cache.Options{
		"all":        {},
		"namespaces": {DefaultNamespaces: map[string]cache.Config{"a": {LabelSelector: x}, "b": {}}},
		"rest":       {DefaultNamespaces: map[string]cache.Config{"a": {}, cache.AllNamespaces: {LabelSelector: x}}},
		"by object":  {ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: x, Field: fields.OneTermEqualSelector("metadata.name", "two")}}},
		"by field":   {DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", "b")},
		"transform":  {DefaultTransform: cache.TransformStripManagedFields()},
		"shallow":    {DefaultUnsafeDisableDeepCopy: &shallow},
		"resync":     {SyncPeriod: &period},
	}
}

// TestSameReads: caches with both kinds of informers return the same objects, and call handlers
// with the same ones, for all settings and all forms of objects, also after a removal of the
// informer.
func TestSameReads(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	api, err := client.New(c.RESTConfig(), client.Options{})
	e2e.Must(t, err)
	for _, namespace := range []string{"a", "b"} {
		create(t, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for n, name := range []string{"one", "two", "three"} {
			create(t, api, object(namespace, name, n%2))
		}
	}
	for name, options := range variants() {
		t.Run(name, func(t *testing.T) {
			cfg := c.RESTConfig()
			stock, other := start(t, c.RESTConfig(), options, nil), start(t, cfg, options, ours(t, cfg))
			for form := range forms() {
				for round := range 2 {
					compare(t, api, fmt.Sprintf("%s, round %d", form, round), [2]reader{{stock, form}, {other, form}}, options.SyncPeriod != nil && round == 0)
				}
			}
		})
	}
}

func object(namespace, name string, x int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"x": fmt.Sprint(x)}}, Data: map[string]string{"n": name}}
}

// start starts a cache, which ends with the test.
func start(t *testing.T, cfg *rest.Config, options cache.Options, create newInformer) cache.Cache {
	t.Helper()
	options.NewInformer = create
	c, err := cache.New(cfg, options)
	e2e.Must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if web, err := rest.HTTPClientFor(cfg); err == nil { // it shares the cache's transport
			utilnet.CloseIdleConnectionsFor(web.Transport)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("not synced")
	}
	return c
}

// compare gives both caches a handler, changes an object, and compares the calls and the lists.
func compare(t *testing.T, api client.Client, name string, both [2]reader, resync bool) {
	t.Helper()
	var calls [2]*calls
	for n := range both {
		calls[n] = both[n].handle(t)
	}
	two := object("b", "two", 1)
	steps := []error{
		api.Patch(t.Context(), two, client.RawPatch(types.MergePatchType, []byte(`{"data":{"more":"`+name+`"}}`))),
		api.Delete(t.Context(), two), api.Create(t.Context(), object("b", "two", 1)),
	}
	e2e.Must(t, errors.Join(steps...))
	for n := range both {
		e2e.Eventually(t, name+": the handler has all calls", func() bool { return calls[n].complete(resync) })
	}
	if diff := gocmp.Diff(calls[0].sorted(), calls[1].sorted()); diff != "" {
		t.Errorf("%s: calls, -stock +informd:\n%s", name, diff)
	}
	for _, in := range []string{"", "a", "b"} {
		if diff := gocmp.Diff(both[0].list(t, in), both[1].list(t, in)); diff != "" {
			t.Errorf("%s: objects in %q, -stock +informd:\n%s", name, in, diff)
		}
	}
	for _, r := range both {
		e2e.Must(t, r.RemoveInformer(t.Context(), r.example()))
	}
}

// forms are the forms of ConfigMaps, and of their lists.
func forms() map[string]func() (client.Object, client.ObjectList) {
	kind, list := corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("ConfigMapList")
	return map[string]func() (client.Object, client.ObjectList){
		"typed": func() (client.Object, client.ObjectList) { return &corev1.ConfigMap{}, &corev1.ConfigMapList{} },
		"unstructured": func() (client.Object, client.ObjectList) {
			one, all := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
			one.SetGroupVersionKind(kind)
			all.SetGroupVersionKind(list)
			return one, all
		},
		"metadata": func() (client.Object, client.ObjectList) {
			one, all := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
			one.SetGroupVersionKind(kind)
			all.SetGroupVersionKind(list)
			return one, all
		},
	}
}

// reader reads one form of ConfigMaps from a cache.
type reader struct {
	cache.Cache
	form string
}

func (r reader) example() client.Object {
	one, _ := forms()[r.form]()
	return one
}

// list returns the objects of namespaces a and b, or of one of them, by key.
func (r reader) list(t *testing.T, namespace string) map[string]runtime.Object {
	t.Helper()
	_, all := forms()[r.form]()
	if err := r.List(t.Context(), all, client.InNamespace(namespace)); err != nil && namespace != "a" { // some caches have only b
		t.Fatal(err)
	}
	result := map[string]runtime.Object{}
	err := meta.EachListItem(all, func(o runtime.Object) error {
		if m := o.(client.Object); m.GetNamespace() != "kube-system" { //nolint:forcetypeassert // a panic fails the test
			result[m.GetNamespace()+"/"+m.GetName()] = o
		}
		return nil
	})
	e2e.Must(t, err)
	return result
}

// handle adds a handler.
func (r reader) handle(t *testing.T) *calls {
	t.Helper()
	i, err := r.GetInformer(t.Context(), r.example())
	e2e.Must(t, err)
	c := &calls{}
	handle, err := i.AddEventHandler(c)
	e2e.Must(t, err)
	e2e.Eventually(t, "the handler is synced", handle.HasSynced)
	return c
}

// calls are those of a handler. Resyncs are counted.
type calls struct {
	mu       sync.Mutex
	all      []call
	resynced int
}

type call struct {
	What string
	Objs []any
}

func (c *calls) add(what string, objects ...any) {
	for _, o := range objects {
		if o.(client.Object).GetNamespace() == "kube-system" { //nolint:forcetypeassert // a panic fails the test
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call{what, objects})
}

func (c *calls) OnAdd(o any, initial bool) { c.add(fmt.Sprint("added, initial ", initial), o) }

func (c *calls) OnUpdate(old, now any) {
	if old.(client.Object).GetResourceVersion() == now.(client.Object).GetResourceVersion() { //nolint:forcetypeassert // a panic fails the test
		c.mu.Lock()
		defer c.mu.Unlock()
		c.resynced++
		return
	}
	c.add("updated", old, now)
}

func (c *calls) OnDelete(o any) { c.add("deleted", o) }

// complete reports whether the last call is that of the object that was created again.
func (c *calls) complete(resync bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all) > 0 && c.all[len(c.all)-1].What == "added, initial false" && (c.resynced > 0 || !resync)
}

// sorted returns the calls, those of the first list by key.
func (c *calls) sorted() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := func(one call) string {
		if one.What != "added, initial true" {
			return "later"
		}
		o := one.Objs[0].(client.Object) //nolint:forcetypeassert // checked by add
		return "initial " + o.GetNamespace() + "/" + o.GetName()
	}
	slices.SortStableFunc(c.all, func(a, b call) int { return cmp.Compare(key(a), key(b)) })
	return slices.Clone(c.all)
}
