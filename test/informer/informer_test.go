// Package informer_test compares pkg/informer with a stock informer on a real control plane.
package informer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

const (
	namespace = "default"
	patience  = 60 * time.Second // for what takes a moment, on a busy machine
)

// mirror is the state that the calls of a handler describe.
type mirror struct {
	mu     sync.Mutex
	states map[string]string // UID and resourceVersion by key
	faults []string
}

func (m *mirror) OnAdd(o any, _ bool) {
	m.apply(o, func(key, state string) string {
		if m.states[key] != "" {
			return "added, but known as " + m.states[key]
		}
		m.states[key] = state
		return ""
	})
}

func (m *mirror) OnUpdate(old, now any) {
	m.apply(now, func(key, state string) string {
		before, _ := old.(metav1.Object)
		known := m.states[key]
		m.states[key] = state
		if known != stateOf(before) {
			return fmt.Sprintf("updated from %s, but known as %q", stateOf(before), known)
		}
		return ""
	})
}

func (m *mirror) OnDelete(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	m.apply(o, func(key, _ string) string {
		if m.states[key] == "" {
			return "deleted, but unknown"
		}
		delete(m.states, key)
		return ""
	})
}

func (m *mirror) apply(o any, change func(key, state string) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok := o.(metav1.Object)
	if !ok {
		m.faults = append(m.faults, fmt.Sprintf("%T is no object", o))
		return
	}
	key := object.GetNamespace() + "/" + object.GetName()
	if fault := change(key, stateOf(object)); fault != "" {
		m.faults = append(m.faults, key+": "+fault)
	}
}

func (m *mirror) all() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.states)
}

// reconcile returns a function that keeps the state of the lister, and fails every third time.
func (m *mirror) reconcile(lister cache.GenericLister) informer.ReconcileFunc {
	var calls atomic.Int32
	return func(_ context.Context, key types.NamespacedName) (informer.Result, error) {
		if calls.Add(1)%3 == 0 {
			return informer.Result{}, errors.New("a third of the calls fails")
		}
		o, err := lister.ByNamespace(key.Namespace).Get(key.Name)
		m.mu.Lock()
		defer m.mu.Unlock()
		if apierrors.IsNotFound(err) {
			delete(m.states, key.String())
			return informer.Result{}, nil
		}
		object, ok := o.(metav1.Object)
		if !ok {
			return informer.Result{}, err
		}
		m.states[key.String()] = stateOf(object)
		return informer.Result{}, nil
	}
}

func stateOf(o metav1.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

// TestEqualsTheServer: after random changes, a restart of the API server among them, the store,
// the calls of the handlers and a reconciler have the state of the server, and no call contradicts
// another.
func TestEqualsTheServer(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	api := client(t, c.RESTConfig())
	factory, err := informer.NewFactory(c.RESTConfig(), informer.Options{Namespace: namespace})
	e2e.Must(t, err)
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	whole, partial := factory.ForResource(gvr), factory.ForMetadata(gvr)
	full, metadata := &mirror{states: map[string]string{}}, &mirror{states: map[string]string{}}
	for _, of := range []struct {
		informer cache.SharedIndexInformer
		mirror   *mirror
	}{{whole.Informer(), full}, {partial.Informer(), metadata}} {
		if _, err := of.informer.AddEventHandler(of.mirror); err != nil {
			t.Fatal(err)
		}
	}
	reconciled := &mirror{states: map[string]string{}}
	r, err := informer.NewReconciler(factory, gvr, reconciled.reconcile(whole.Lister()), informer.ReconcilerOptions{Workers: 4})
	e2e.Must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	end := sync.OnceFunc(func() { cancel(); running.Wait(); factory.Shutdown() })
	t.Cleanup(end)
	factory.Start(ctx.Done())
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for gvr, synced := range factory.WaitForCacheSync(t.Context().Done()) {
		if !synced {
			t.Fatalf("%s is not synced", gvr)
		}
	}

	random := rand.New(rand.NewPCG(18, 1))
	for n := range 300 {
		if n == 150 {
			e2e.Must(t, c.APIServer(0).Kill())
			e2e.Must(t, c.APIServer(0).Start(t.Context()))
		}
		changeOne(t.Context(), t, api, fmt.Sprintf("object-%d", random.IntN(20)), n)
	}

	list, err := api.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	e2e.Must(t, err)
	want := map[string]string{}
	for i := range list.Items {
		want[namespace+"/"+list.Items[i].Name] = stateOf(&list.Items[i])
	}
	for name, of := range map[string]*mirror{"full": full, "metadata": metadata, "reconciler": reconciled} {
		e2e.Eventually(t, name+": the mirror has the state of the server", func() bool { return maps.Equal(of.all(), want) })
		if len(of.faults) > 0 {
			t.Errorf("%s: %v", name, of.faults)
		}
	}
	for i := range list.Items {
		got, err := whole.Lister().ByNamespace(namespace).Get(list.Items[i].Name)
		e2e.Must(t, err)
		object, ok := got.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%T, want an unstructured object", got)
		}
		data, _, _ := unstructured.NestedStringMap(object.Object, "data")
		if stateOf(object) != stateOf(&list.Items[i]) || !maps.Equal(data, list.Items[i].Data) || len(object.GetManagedFields()) == 0 {
			t.Errorf("the store has %v, the server %v", object.Object, list.Items[i])
		}
	}
	keys := whole.Informer().GetStore().ListKeys()
	if !slices.Equal(slices.Sorted(slices.Values(keys)), slices.Sorted(maps.Keys(want))) {
		t.Errorf("the store has %v, want %v", keys, want)
	}
	end()
}

// changeOne creates or updates an object; every fourth time it is deleted, and every eighth
// created again at once.
func changeOne(ctx context.Context, t *testing.T, api *kubernetes.Clientset, name string, n int) {
	t.Helper()
	maps, object := api.CoreV1().ConfigMaps(namespace), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": fmt.Sprint(n)}}
	_, err := maps.Get(ctx, name, metav1.GetOptions{})
	exists := err == nil
	switch {
	case !exists:
		_, err = maps.Create(ctx, object, metav1.CreateOptions{})
	case n%4 != 0:
		_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
	default:
		err = maps.Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil && n%8 == 0 {
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		}
	}
	if err != nil {
		t.Fatalf("change %d of %s: %v", n, name, err)
	}
}

// client returns a clientset whose connections end with the test.
func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	set, err := kubernetes.NewForConfigAndClient(config, e2e.HTTPClient(t, config))
	e2e.Must(t, err)
	return set
}
