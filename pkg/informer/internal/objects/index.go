package objects

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// same reports whether two index functions have the same code.
func same(a, b cache.IndexFunc) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

func namespaceOf(key string) string { return key[:max(strings.IndexByte(key, '/'), 0)] }

// valuesOf returns the values of each index. It calls the index functions with the JSON of an object,
// or with the object, which is decoded once for all of them.
func (s *Store) valuesOf(key string, text []byte, into reflect.Type, indexers cache.Indexers) map[string][]string {
	var o runtime.Object
	var undecodable error
	all := make(map[string][]string, len(indexers))
	for name, index := range indexers {
		if same(index, cache.MetaNamespaceIndexFunc) { // the key alone has its values
			all[name] = []string{namespaceOf(key)}
			continue
		}
		if !readsJSON(index) && o == nil && undecodable == nil {
			if o, undecodable = Decode(text, into); undecodable != nil {
				s.failed(key, undecodable)
			}
		}
		var err error
		switch {
		case readsJSON(index):
			all[name], err = index(rawObject(text))
		case undecodable == nil:
			all[name], err = indexValues(index, o)
		}
		if err != nil {
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

// bucket is the keys of the objects with one value of an index.
type bucket struct {
	index, value string
	keys         map[string]struct{}
}

// index adds an object to the buckets of its values in some indices.
func (s *Store) index(e *Entry, values map[string][]string) {
	for name, all := range values {
		for _, value := range all {
			b := s.indices[name][value]
			if b == nil {
				b = &bucket{name, strings.Clone(value), make(map[string]struct{})}
				s.indices[name][b.value] = b
			}
			b.keys[e.Key] = struct{}{}
			e.buckets = append(e.buckets, b)
		}
	}
}

// unindex removes an object from the buckets that its new state is not in. Both may be nil.
func (s *Store) unindex(e, now *Entry) {
	if e == nil {
		return
	}
	for _, b := range e.buckets {
		if now != nil && slices.Contains(now.buckets, b) {
			continue
		}
		if delete(b.keys, e.Key); len(b.keys) == 0 {
			delete(s.indices[b.index], b.value)
		}
	}
}

// Index implements [cache.Indexer].
func (s *Store) Index(name string, obj any) ([]any, error) {
	s.mu.RLock()
	index := s.indexers[name]
	s.mu.RUnlock()
	switch {
	case index != nil:
	case name == cache.NamespaceIndex:
		index = cache.MetaNamespaceIndexFunc
	default:
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

// byValues returns the objects of some values of an index, sorted by key. Without an index of
// namespaces it looks at all keys: callers would decode all objects.
func (s *Store) byValues(name string, values ...string) ([]*Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Entry
	switch {
	case s.indexers[name] != nil:
		for _, value := range values {
			if b := s.indices[name][value]; b != nil {
				all = slices.Grow(all, len(b.keys))
				for key := range b.keys {
					all = append(all, s.objects[key])
				}
			}
		}
	case name == cache.NamespaceIndex:
		for key, e := range s.objects {
			if slices.Contains(values, namespaceOf(key)) {
				all = append(all, e)
			}
		}
	default:
		return nil, noIndex(name)
	}
	slices.SortFunc(all, byKey)
	return slices.Compact(all), nil
}

// IndexKeys implements [cache.Indexer].
func (s *Store) IndexKeys(name, value string) ([]string, error) {
	all, err := s.byValues(name, value)
	keys := make([]string, len(all))
	for i := range all {
		keys[i] = all[i].Key
	}
	return keys, err
}

// ByIndex implements [cache.Indexer].
func (s *Store) ByIndex(name, value string) ([]any, error) {
	all, err := s.byValues(name, value)
	return s.decoded(all), err
}

// ListIndexFuncValues implements [cache.Indexer].
func (s *Store) ListIndexFuncValues(name string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.indices[name]))
}

// GetIndexers implements [cache.Indexer].
func (s *Store) GetIndexers() cache.Indexers {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.indexers)
}

// AddIndexers implements [cache.Indexer]. It reads all objects once.
func (s *Store) AddIndexers(more cache.Indexers) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for name := range more {
		if s.indexers[name] != nil {
			return errors.New("indexer conflict: " + name)
		}
	}
	valued := make(map[string]map[string][]string, len(s.objects)) // by key
	for key, e := range s.objects {
		text, err := e.json()
		if err != nil {
			s.failed(key, err)
			continue
		}
		valued[key] = s.valuesOf(key, text, e.into, more)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, index := range more {
		s.indexers[name] = index
		s.indices[name] = make(map[string]*bucket)
	}
	for key, values := range valued {
		own := *s.objects[key] // readers may hold the entry
		own.buckets = slices.Clone(own.buckets)
		s.index(&own, values)
		s.objects[key] = &own
	}
	return nil
}
