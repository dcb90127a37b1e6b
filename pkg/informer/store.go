package informer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// entry is one object of the store. It never changes: readers hold it without a lock.
type entry struct {
	blob
	key, uid, rv string
	// round is the list that the object was seen in, or the one before its last change.
	round uint64
	// buckets are those that contain the object.
	buckets []*bucket
}

// store implements [cache.Indexer]. Objects that it returns are new copies.
type store struct {
	// failed reports an object that cannot be decoded or an index function that fails.
	failed func(key string, err error)
	into   reflect.Type

	// writing is held by who changes the store, also while it compresses an object and calls
	// index functions. They may read the store.
	writing    sync.Mutex
	compressor compressor

	// mu is taken after writing. With either of them the maps may be read, with both changed.
	mu       sync.RWMutex
	objects  map[string]*entry
	indexers cache.Indexers
	// indices are the buckets by index and value. None of them is empty.
	indices map[string]map[string]*bucket
	rv      string
}

var _ cache.Indexer = (*store)(nil)

func newStore(into reflect.Type, indexers cache.Indexers, failed func(string, error)) *store {
	s := &store{into: into, failed: failed, objects: make(map[string]*entry), indexers: cache.Indexers{}, indices: make(map[string]map[string]*bucket)}
	_ = s.AddIndexers(indexers) // an empty store has no conflict
	return s
}

// put stores the JSON of an object, and returns the entry before it, nil for none, and the new
// one. It keeps no memory of its arguments.
func (s *store) put(key, uid, rv string, text []byte, into reflect.Type, round uint64) (before, now *entry) {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := &entry{blob: s.compressor.compress(text, into), key: key, uid: uid, rv: rv, round: round}
	values := s.valuesOf(key, text, into, s.indexers)
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.objects[key]
	if before != nil {
		e.key = before.key // buckets have it as well
	} else {
		e.key = strings.Clone(key)
	}
	// The texts of an event are parts of a larger one, with those of other events.
	if before != nil && before.uid == uid {
		e.uid = before.uid
	} else {
		e.uid = strings.Clone(uid)
	}
	s.index(e, values)
	s.unindex(before, e)
	s.objects[e.key] = e
	return before, e
}

// compress returns an object as the store keeps it.
func (s *store) compress(text []byte, into reflect.Type) blob {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.compressor.compress(text, into)
}

// decode decodes JSON into a new object of a type.
func (s *store) decode(text []byte, into reflect.Type) (runtime.Object, error) {
	shared := &s.compressor.shared
	d := shared.decoder()
	defer shared.decoders.Put(d)
	return shared.decode(d, text, into)
}

// remove returns the removed entry, nil for none.
func (s *store) remove(key string) *entry {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects[key]
	s.unindex(e, nil)
	delete(s.objects, key)
	return e
}

// snapshot returns all objects, still compressed, sorted by key.
func (s *store) snapshot() []*entry {
	s.mu.RLock()
	all := slices.AppendSeq(make([]*entry, 0, len(s.objects)), maps.Values(s.objects))
	s.mu.RUnlock()
	slices.SortFunc(all, byKey)
	return all
}

func byKey(a, b *entry) int { return strings.Compare(a.key, b.key) }

// encode returns what the store keeps of an object that a program puts into it.
func encode(obj any) (key, uid, rv string, text []byte, into reflect.Type, err error) {
	if key, err = cache.MetaNamespaceKeyFunc(obj); err != nil {
		return "", "", "", nil, nil, cache.KeyError{Obj: obj, Err: err}
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return "", "", "", nil, nil, fmt.Errorf("object %s: %w", key, err)
	}
	if text, err = json.Marshal(obj); err != nil {
		return "", "", "", nil, nil, fmt.Errorf("encode object %s: %w", key, err)
	}
	into = reflect.TypeOf(obj)
	if into.Kind() != reflect.Pointer {
		return "", "", "", nil, nil, fmt.Errorf("object %s: %s is no pointer", key, into)
	}
	return key, string(o.GetUID()), o.GetResourceVersion(), text, into.Elem(), nil
}

// Add implements [cache.Store].
func (s *store) Add(obj any) error {
	key, uid, rv, text, into, err := encode(obj)
	if err != nil {
		return err
	}
	s.put(key, uid, rv, text, into, 0)
	s.Bookmark(rv)
	return nil
}

// Update implements [cache.Store].
func (s *store) Update(obj any) error { return s.Add(obj) }

// Delete implements [cache.Store].
func (s *store) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	s.remove(key)
	if o, err := meta.Accessor(obj); err == nil {
		s.Bookmark(o.GetResourceVersion())
	}
	return nil
}

// Replace implements [cache.Store].
func (s *store) Replace(list []any, rv string) error {
	keep := make(map[string]bool, len(list))
	for _, obj := range list {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			return cache.KeyError{Obj: obj, Err: err}
		}
		keep[key] = true
	}
	for _, key := range s.ListKeys() {
		if !keep[key] {
			s.remove(key)
		}
	}
	for _, obj := range list {
		if err := s.Add(obj); err != nil {
			return err
		}
	}
	s.Bookmark(rv)
	return nil
}

// Resync implements [cache.Store]. It does nothing.
func (*store) Resync() error { return nil }

// Bookmark implements [cache.Store].
func (s *store) Bookmark(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv = rv
}

// advance is Bookmark with a number.
func (s *store) advance(rv uint64) {
	if rv != 0 {
		s.Bookmark(strconv.FormatUint(rv, 10))
	}
}

// LastStoreSyncResourceVersion implements [cache.Store].
func (s *store) LastStoreSyncResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rv
}

// List implements [cache.Store]: it decodes all objects.
func (s *store) List() []any { return s.decoded(s.snapshot()) }

func (s *store) decoded(all []*entry) []any {
	list := make([]any, 0, len(all))
	for _, e := range all {
		o, err := e.object()
		if err != nil {
			s.failed(e.key, err)
			continue
		}
		list = append(list, o)
	}
	return list
}

// ListKeys implements [cache.Store].
func (s *store) ListKeys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.objects))
}

// Get implements [cache.Store].
func (s *store) Get(obj any) (item any, exists bool, err error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return s.GetByKey(key)
}

// entry returns the entry of a key, nil for none.
func (s *store) entry(key string) *entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects[key]
}

// GetByKey implements [cache.Store]. The key of a cluster-wide object may begin with "/", as texts of
// types.NamespacedName do.
func (s *store) GetByKey(key string) (item any, exists bool, err error) {
	e := s.entry(strings.TrimPrefix(key, "/"))
	if e == nil {
		return nil, false, nil
	}
	o, err := e.object()
	if err != nil {
		return nil, false, err
	}
	return o, true, nil
}
