//go:build long

package informer_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/informd/informd/pkg/informer"
)

// TestForEachInAChangingStore expects each object that stays, with one of its states, while f and other
// goroutines change the store. A panic of f leaves the store usable.
func TestForEachInAChangingStore(t *testing.T) {
	store := storeFor(t, nil)
	object := func(name string, value int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "a", "name": name}, "a": value, "b": value, "c": strings.Repeat("x", 200),
		}}
	}
	add := func(name string, value int64) {
		if err := store.Add(object(name, value)); err != nil {
			t.Error(err)
		}
	}
	const lasting = 200
	for n := range lasting {
		add(fmt.Sprintf("lasting-%d", n), 0)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				add(fmt.Sprintf("lasting-%d", n%lasting), n)
				passing := fmt.Sprintf("passing-%d-%d", w, n%1000)
				add(passing, n)
				if n%2 == 0 {
					if err := store.Delete(object(passing, n)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 20 {
		seen := make(map[string]int)
		err := informer.ForEach(store, []string{"a", "b"}, func(key types.NamespacedName, o *unstructured.Unstructured) bool {
			if o.Object["a"] == nil || o.Object["a"] != o.Object["b"] || o.Object["c"] != nil {
				t.Errorf("%s has parts of several states: %v", key, o.Object)
			}
			seen[key.Name]++
			add("own", int64(len(seen)))
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		for n := range lasting {
			if name := fmt.Sprintf("lasting-%d", n); seen[name] != 1 {
				t.Errorf("%s is passed %d times", name, seen[name])
			}
		}
	}
	close(stop)
	writers.Wait()
	func() {
		defer func() { _ = recover() }()
		_ = informer.ForEach(store, nil, func(types.NamespacedName, *unstructured.Unstructured) bool { panic("f") })
	}()
	add("after a panic", 1)
}
