package objects

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// TestIndexFunctionsMayReadTheStore expects that they hold up no reader, themselves included.
func TestIndexFunctionsMayReadTheStore(t *testing.T) {
	s := New(nil, nil, func(key string, err error) { t.Errorf("%s: %v", key, err) })
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
	case <-time.After(time.Minute):
		t.Fatal("an index function that reads the store holds up the store")
	}
	if keys, err := s.IndexKeys("seen", "shop/first"); err != nil || len(keys) != 2 {
		t.Errorf("the index has %v, %v", keys, err)
	}
}

// TestEntriesKeepNoEvents expects that the store keeps nothing of the memory that the texts of an
// event are in: an event shares it with the events before and behind it.
func TestEntriesKeepNoEvents(t *testing.T) {
	const size, objects = 1 << 20, 100
	heap := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	s := New(UnstructuredType(), nil, func(key string, err error) { t.Errorf("%s: %v", key, err) })
	put := func(n, uid int) {
		texts := fmt.Sprintf("node-%03d uid-%03d %s", n, uid, strings.Repeat("x", size))
		s.Put(texts[:8], texts[9:16], "1", []byte(`{}`), UnstructuredType(), 0)
	}
	before := heap()
	for n := range objects {
		put(n, n)
		put(n, n)     // changed
		put(n, n+500) // created again
	}
	if kept := heap() - before; kept > size*objects/10 {
		t.Errorf("the store keeps %d bytes of %d events", kept, objects)
	}
	if e := s.Entry("node-007"); e.Key != "node-007" || e.UID != "uid-507" {
		t.Errorf("entry %s, %s", e.Key, e.UID)
	}
}

// TestKeep: an object stays in the list of a round whose state of it is not stored, unless it is another
// one with the same name.
func TestKeep(t *testing.T) {
	s := New(UnstructuredType(), cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, func(key string, err error) { t.Errorf("%s: %v", key, err) })
	s.Put("a/one", "uid", "1", []byte(`{}`), UnstructuredType(), 1)
	s.Keep("a/one", "other", 2)
	if e := s.Entry("a/one"); e.Round != 1 {
		t.Errorf("round %d of an object with another uid", e.Round)
	}
	s.Keep("a/one", "uid", 2)
	if e := s.Entry("a/one"); e.Round != 2 || e.RV != "1" {
		t.Errorf("round %d, resourceVersion %s", e.Round, e.RV)
	}
	s.Remove("a/one")
	if keys, err := s.IndexKeys(cache.NamespaceIndex, "a"); err != nil || len(keys) > 0 {
		t.Errorf("the index has %v, %v", keys, err)
	}
	s.Keep("a/none", "uid", 2)
	if s.Entry("a/none") != nil {
		t.Error("Keep made an object")
	}
}
