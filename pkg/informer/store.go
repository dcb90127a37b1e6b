package informer

import (
	"encoding/json"
	"errors"
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

// entry is one object of the store.
type entry struct {
	blob
	uid, rv string
	// round is the list that the object was seen in, or the one before its last change.
	round uint64
	// values are those of each custom index, by name.
	values map[string][]string
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
	// indices are sets of keys by index and value.
	indices map[string]map[string]map[string]struct{}
	rv      string
}

var _ cache.Indexer = (*store)(nil)

func newStore(into reflect.Type, indexers cache.Indexers, failed func(string, error)) *store {
	s := &store{into: into, failed: failed, objects: make(map[string]*entry), indexers: cache.Indexers{}, indices: make(map[string]map[string]map[string]struct{})}
	_ = s.AddIndexers(indexers) // an empty store has no conflict
	return s
}

// isNamespaceIndex reports whether a key alone has the values of an index.
func isNamespaceIndex(index cache.IndexFunc) bool {
	return reflect.ValueOf(index).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}

func namespaceOf(key string) string {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return namespace
}

// put stores the JSON of an object, and returns the entry before it, nil for none, and the new
// one.
func (s *store) put(key, uid, rv string, text []byte, into reflect.Type, round uint64) (before, now *entry) {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := &entry{blob: s.compressor.compress(text, into), uid: uid, rv: rv, round: round}
	e.values = s.valuesOf(key, e.blob, s.indexers)
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.objects[key]
	s.unindex(key, before)
	s.objects[key] = e
	for name, index := range s.indexers {
		if isNamespaceIndex(index) {
			s.index(name, namespaceOf(key), key)
		}
		for _, value := range e.values[name] {
			s.index(name, value, key)
		}
	}
	return before, e
}

// compress returns an object as the store keeps it.
func (s *store) compress(text []byte, into reflect.Type) blob {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.compressor.compress(text, into)
}

// remove returns the removed entry, nil for none.
func (s *store) remove(key string) *entry {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects[key]
	s.unindex(key, e)
	delete(s.objects, key)
	return e
}

// valuesOf calls the custom index functions with one decoded object.
func (s *store) valuesOf(key string, b blob, indexers cache.Indexers) map[string][]string {
	var o runtime.Object
	var all map[string][]string
	for name, index := range indexers {
		if isNamespaceIndex(index) {
			continue
		}
		var err error
		if o == nil {
			if o, err = b.object(); err != nil {
				s.failed(key, err)
				return nil
			}
			all = make(map[string][]string, len(indexers))
		}
		if all[name], err = indexValues(index, o); err != nil {
			s.failed(key, fmt.Errorf("index %s: %w", name, err))
		}
	}
	return all
}

// indexValues calls an index function of the program. A panic is an error.
func indexValues(index cache.IndexFunc, o any) (values []string, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	return index(o)
}

func (s *store) index(name, value, key string) {
	keys := s.indices[name][value]
	if keys == nil {
		keys = make(map[string]struct{})
		s.indices[name][value] = keys
	}
	keys[key] = struct{}{}
}

func (s *store) unindex(key string, e *entry) {
	if e == nil {
		return
	}
	for name, index := range s.indexers {
		values := e.values[name]
		if isNamespaceIndex(index) {
			values = []string{namespaceOf(key)}
		}
		for _, value := range values {
			if delete(s.indices[name][value], key); len(s.indices[name][value]) == 0 {
				delete(s.indices[name], value)
			}
		}
	}
}

// keyed is a key with its object.
type keyed struct {
	key string
	*entry
}

// snapshot returns all objects, still compressed, sorted by key.
func (s *store) snapshot() []keyed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]keyed, 0, len(s.objects))
	for key, e := range s.objects {
		all = append(all, keyed{key, e})
	}
	slices.SortFunc(all, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	return all
}

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

func (s *store) decoded(all []keyed) []any {
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

// GetByKey implements [cache.Store].
func (s *store) GetByKey(key string) (item any, exists bool, err error) {
	e := s.entry(key)
	if e == nil {
		return nil, false, nil
	}
	o, err := e.object()
	if err != nil {
		return nil, false, err
	}
	return o, true, nil
}

// Index implements [cache.Indexer].
func (s *store) Index(name string, obj any) ([]any, error) {
	s.mu.RLock()
	index := s.indexers[name]
	s.mu.RUnlock()
	if index == nil {
		return nil, noIndex(name)
	}
	values, err := index(obj)
	if err != nil {
		return nil, err
	}
	all, err := s.byValues(name, values...)
	return s.decoded(all), err
}

// noIndex has the text of client-go.
func noIndex(name string) error { return fmt.Errorf("Index with name %s does not exist", name) }

// byValues returns the objects of some values of an index, sorted by key.
func (s *store) byValues(name string, values ...string) ([]keyed, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.indexers[name] == nil {
		return nil, noIndex(name)
	}
	keys := make(map[string]struct{})
	for _, value := range values {
		maps.Copy(keys, s.indices[name][value])
	}
	all := make([]keyed, 0, len(keys))
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, keyed{key, s.objects[key]})
	}
	return all, nil
}

// IndexKeys implements [cache.Indexer].
func (s *store) IndexKeys(name, value string) ([]string, error) {
	all, err := s.byValues(name, value)
	keys := make([]string, len(all))
	for i := range all {
		keys[i] = all[i].key
	}
	return keys, err
}

// ByIndex implements [cache.Indexer].
func (s *store) ByIndex(name, value string) ([]any, error) {
	all, err := s.byValues(name, value)
	return s.decoded(all), err
}

// ListIndexFuncValues implements [cache.Indexer].
func (s *store) ListIndexFuncValues(name string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.indices[name]))
}

// GetIndexers implements [cache.Indexer].
func (s *store) GetIndexers() cache.Indexers {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.indexers)
}

// AddIndexers implements [cache.Indexer]. It decodes all objects once.
func (s *store) AddIndexers(more cache.Indexers) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for name := range more {
		if s.indexers[name] != nil {
			return errors.New("indexer conflict: " + name)
		}
	}
	valued := make(map[string]map[string][]string) // by key
	for key, e := range s.objects {
		if values := s.valuesOf(key, e.blob, more); values != nil {
			valued[key] = values
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, index := range more {
		s.indexers[name] = index
		s.indices[name] = make(map[string]map[string]struct{})
		if isNamespaceIndex(index) {
			for key := range s.objects {
				s.index(name, namespaceOf(key), key)
			}
		}
	}
	for key, values := range valued {
		own := *s.objects[key] // readers may hold the entry
		own.values = maps.Clone(values)
		maps.Copy(own.values, s.objects[key].values)
		s.objects[key] = &own
		for name, found := range values {
			for _, value := range found {
				s.index(name, value, key)
			}
		}
	}
	return nil
}
