package informer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// TestIndexFunctionsMayReadTheStore expects that they hold up no reader, themselves included.
func TestIndexFunctionsMayReadTheStore(t *testing.T) {
	s := newStore(nil, nil, func(key string, err error) { t.Errorf("%s: %v", key, err) })
	seen := cache.IndexFunc(func(any) ([]string, error) {
		if _, _, err := s.GetByKey("shop/first"); err != nil {
			return nil, err
		}
		return s.ListKeys(), nil
	})
	object := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetNamespace("shop")
		u.SetName(name)
		return u
	}
	done := make(chan error)
	go func() {
		err := s.Add(object("first"))
		if err == nil {
			err = s.AddIndexers(cache.Indexers{"seen": seen})
		}
		if err == nil {
			err = s.Add(object("second"))
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("an index function that reads the store holds up the store")
	}
	if keys, err := s.IndexKeys("seen", "shop/first"); err != nil || len(keys) != 2 {
		t.Errorf("the index has %v, %v", keys, err)
	}
}
