package objects

import (
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/fieldpath"
	"github.com/informd/informd/pkg/internal/jsonend"
)

// labelSet reads the labels of an object from their JSON.
type labelSet struct{ json []byte }

var _ labels.Labels = (*labelSet)(nil)

// labelsOf returns the labels of an object in JSON without white space, as JSON, "" for none. Objects
// with the same labels share the text.
func labelsOf(object []byte) unique.Handle[string] {
	var found []byte
	members(object, func(key, value []byte) bool {
		if string(key) != `"metadata"` {
			return true
		}
		members(value, func(key, value []byte) bool {
			if string(key) == `"labels"` {
				found = value
			}
			return found == nil
		})
		return false
	})
	return unique.Make(string(found))
}

// members calls visit with the members of an object, keys with their quotes, until it returns false.
// For other values it does nothing.
func members(object []byte, visit func(key, value []byte) bool) {
	for i := 1; len(object) > 0 && object[0] == '{' && i < len(object) && object[i] == '"'; i++ {
		colon, _ := jsonend.Text(object, i)
		if colon == jsonend.None {
			return
		}
		end := jsonend.Value(object, colon+1)
		if end == jsonend.None || !visit(object[i:colon], object[colon+1:end]) {
			return
		}
		i = end
	}
}

// Has implements [labels.Labels].
func (s *labelSet) Has(label string) bool {
	_, exists := s.Lookup(label)
	return exists
}

// Get implements [labels.Labels].
func (s *labelSet) Get(label string) string {
	value, _ := s.Lookup(label)
	return value
}

// Lookup implements [labels.Labels].
func (s *labelSet) Lookup(label string) (value string, exists bool) {
	members(s.json, func(key, text []byte) bool {
		if name, _ := fieldpath.Text(key); string(name) == label {
			of, _ := fieldpath.Text(text) // nothing for null, as decoding has it
			value, exists = string(of), true
		}
		return !exists
	})
	return value, exists
}

// Select decodes the objects of a namespace, "" for all, whose labels a selector selects. They are
// sorted by key.
func (s *Store) Select(namespace string, selector labels.Selector) []any {
	var all []*Entry
	if namespace == "" {
		all = s.entries()
	} else {
		all, _ = s.byValues(cache.NamespaceIndex, namespace) // never an error
	}
	if !selector.Empty() {
		selected := make(map[unique.Handle[string]]bool) // so that equal labels are looked at once
		var set labelSet
		all = slices.DeleteFunc(all, func(e *Entry) bool {
			matches, known := selected[e.labels]
			if !known {
				set.json = append(set.json[:0], e.labels.Value()...)
				matches = selector.Matches(&set)
				selected[e.labels] = matches
			}
			return !matches
		})
	}
	slices.SortFunc(all, byKey)
	return s.decoded(all)
}
