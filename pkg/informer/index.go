package informer

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

// valuesOf calls the custom index functions with the JSON of an object, or with the object, which is
// decoded once for all of them.
func (s *store) valuesOf(key string, text []byte, into reflect.Type, indexers cache.Indexers) map[string][]string {
	var o runtime.Object
	var undecodable error
	var all map[string][]string
	for name, index := range indexers {
		if isNamespaceIndex(index) {
			continue
		}
		if all == nil {
			all = make(map[string][]string, len(indexers))
		}
		if !readsJSON(index) && o == nil && undecodable == nil {
			if o, undecodable = decode(text, into); undecodable != nil {
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

// AddIndexers implements [cache.Indexer]. It reads all objects once.
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
		text, err := e.json()
		if err != nil {
			s.failed(key, err)
			continue
		}
		if values := s.valuesOf(key, text, e.into, more); values != nil {
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
