package informer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/informd/informd/pkg/informer/internal/objects"
)

// TestFormerOwnerWithCoalesce: an object changes its owner and is deleted before the handler runs.
func TestFormerOwnerWithCoalesce(t *testing.T) {
	f, err := NewFactory(&rest.Config{Host: "http://127.0.0.1:1"}, Options{Coalesce: true})
	if err != nil {
		t.Fatal(err)
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	none := func(context.Context, types.NamespacedName) (Result, error) { return Result{}, nil }
	r, err := NewReconciler(f, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, none, ReconcilerOptions{
		Owned: []Owned{{Resource: pods}}, OwnerKind: schema.GroupKind{Kind: "ConfigMap"},
	})
	if err != nil {
		t.Fatal(err)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	defer queue.ShutDown()
	i := f.informers[id{pods, false}].informer
	handle, err := i.AddEventHandlerWithOptions(r.sources(queue)[1].handler, cache.HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(owner string) objects.Blob {
		return i.store.Compress(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","ownerReferences":[`+
			`{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":"u","controller":true}]}}`, owner), objects.UnstructuredType())
	}
	waiting := handle.(*registration) //nolint:forcetypeassert // a panic fails the test, too
	for _, n := range []notification{
		{action: updated, key: "a/p", old: pod("first"), now: pod("second")},
		{action: deleted, key: "a/p", old: pod("second")},
	} {
		waiting.queue.put(n, nil, nil)
	}
	for n, ok := waiting.queue.take(); ok; n, ok = waiting.queue.take() {
		waiting.deliver(n)
	}
	var keys []string
	for queue.Len() > 0 {
		key, _ := queue.Get()
		keys = append(keys, key.String())
	}
	if want := []string{"a/first", "a/second"}; !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
}
