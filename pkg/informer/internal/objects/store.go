package objects

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// Entry is one object of the store. It never changes: readers hold it without a lock.
type Entry struct {
	Blob
	Key, UID, RV string
	// Round is the list that the object was seen in, or the one before its last change.
	Round  uint64
	labels unique.Handle[string]
	// buckets are those that contain the object.
	buckets []*bucket
}

// Store implements [cache.Indexer]. Objects that it returns are new copies. All methods may be called
// concurrently.
type Store struct {
	failed func(key string, err error)
	into   reflect.Type

	// writing is held by who changes the store, also while it compresses an object and calls
	// index functions. They may read the store.
	writing    sync.Mutex
	compressor compressor

	// mu is taken after writing. With either of them the maps may be read, with both changed.
	mu       sync.RWMutex
	objects  map[string]*Entry
	indexers cache.Indexers
	// indices are the buckets by index and value. None of them is empty.
	indices map[string]map[string]*bucket
	rv      string
}

var _ cache.Indexer = (*Store)(nil)

// New returns an empty store of objects of a type. Failed is called for an object that cannot be decoded,
// and for an index function that fails.
func New(into reflect.Type, indexers cache.Indexers, failed func(string, error)) *Store {
	s := &Store{into: into, failed: failed, objects: make(map[string]*Entry), indexers: cache.Indexers{}, indices: make(map[string]map[string]*bucket)}
	_ = s.AddIndexers(indexers) // an empty store has no conflict
	return s
}

// Put stores the JSON of an object, and returns the entry before it, nil for none, and the new
// one. It keeps no memory of its arguments.
func (s *Store) Put(key, uid, rv string, text []byte, into reflect.Type, round uint64) (before, now *Entry) {
	s.writing.Lock()
	defer s.writing.Unlock()
	e := &Entry{Blob: s.compressor.compress(text, into), Key: key, UID: uid, RV: rv, Round: round, labels: labelsOf(text)}
	values := s.valuesOf(key, text, into, s.indexers)
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.objects[key]
	if before != nil {
		e.Key = before.Key // buckets have it as well
	} else {
		e.Key = strings.Clone(key)
	}
	// The texts of an event are parts of a larger one, with those of other events.
	if before != nil && before.UID == uid {
		e.UID = before.UID
	} else {
		e.UID = strings.Clone(uid)
	}
	s.index(e, values)
	s.unindex(before, e)
	s.objects[e.Key] = e
	return before, e
}

// Keep marks an object as seen in a list whose state of it is not stored.
func (s *Store) Keep(key, uid string, round uint64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects[key]; e != nil && e.UID == uid {
		own := *e // readers may hold the entry
		own.Round = round
		s.objects[key] = &own
	}
}

// Compress returns an object as the store keeps it.
func (s *Store) Compress(text []byte, into reflect.Type) Blob {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.compressor.compress(text, into)
}

// Into is the type of the objects.
func (s *Store) Into() reflect.Type { return s.into }

// Remove returns the removed entry, nil for none.
func (s *Store) Remove(key string) *Entry {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects[key]
	s.unindex(e, nil)
	delete(s.objects, key)
	return e
}

// Snapshot returns all objects, still compressed, sorted by key.
func (s *Store) Snapshot() []*Entry {
	all := s.entries()
	slices.SortFunc(all, byKey)
	return all
}

func (s *Store) entries() []*Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.AppendSeq(make([]*Entry, 0, len(s.objects)), maps.Values(s.objects))
}

func byKey(a, b *Entry) int { return strings.Compare(a.Key, b.Key) }

func keyOf(obj any) (string, error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return "", cache.KeyError{Obj: obj, Err: err}
	}
	return key, nil
}

// Add implements [cache.Store].
func (s *Store) Add(obj any) error {
	key, err := keyOf(obj)
	if err != nil {
		return err
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("object %s: %w", key, err)
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode object %s: %w", key, err)
	}
	into := reflect.TypeOf(obj)
	if into.Kind() != reflect.Pointer {
		return fmt.Errorf("object %s: %s is no pointer", key, into)
	}
	s.Put(key, string(o.GetUID()), o.GetResourceVersion(), text, into.Elem(), 0)
	s.Bookmark(o.GetResourceVersion())
	return nil
}

// Update implements [cache.Store].
func (s *Store) Update(obj any) error { return s.Add(obj) }

// Delete implements [cache.Store].
func (s *Store) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	s.Remove(key)
	if o, err := meta.Accessor(obj); err == nil {
		s.Bookmark(o.GetResourceVersion())
	}
	return nil
}

// Replace implements [cache.Store].
func (s *Store) Replace(list []any, rv string) error {
	keep := make(map[string]bool, len(list))
	for _, obj := range list {
		key, err := keyOf(obj)
		if err != nil {
			return err
		}
		keep[key] = true
	}
	for _, key := range s.ListKeys() {
		if !keep[key] {
			s.Remove(key)
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
func (*Store) Resync() error { return nil }

// Bookmark implements [cache.Store].
func (s *Store) Bookmark(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv = rv
}

// Advance is Bookmark with a number.
func (s *Store) Advance(rv uint64) {
	if rv != 0 {
		s.Bookmark(strconv.FormatUint(rv, 10))
	}
}

// LastStoreSyncResourceVersion implements [cache.Store].
func (s *Store) LastStoreSyncResourceVersion() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rv
}

// List implements [cache.Store]: it decodes all objects.
func (s *Store) List() []any { return s.decoded(s.Snapshot()) }

func (s *Store) decoded(all []*Entry) []any {
	list := make([]any, 0, len(all))
	for _, e := range all {
		o, err := e.Object()
		if err != nil {
			s.failed(e.Key, err)
			continue
		}
		list = append(list, o)
	}
	return list
}

// ListKeys implements [cache.Store].
func (s *Store) ListKeys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.objects))
}

// Get implements [cache.Store].
func (s *Store) Get(obj any) (item any, exists bool, err error) {
	key, err := keyOf(obj)
	if err != nil {
		return nil, false, err
	}
	return s.GetByKey(key)
}

// Entry returns the entry of a key, nil for none.
func (s *Store) Entry(key string) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects[key]
}

// GetByKey implements [cache.Store]. The key of a cluster-wide object may begin with "/", as texts of
// types.NamespacedName do.
func (s *Store) GetByKey(key string) (item any, exists bool, err error) {
	e := s.Entry(strings.TrimPrefix(key, "/"))
	if e == nil {
		return nil, false, nil
	}
	item, err = e.Object()
	return item, err == nil, err
}
