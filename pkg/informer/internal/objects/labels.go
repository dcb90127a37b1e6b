package objects

import (
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/internal/jsonend"
)

// labelSet reads the labels of an object from their JSON.
type labelSet struct{ json []byte }

var _ labels.Labels = (*labelSet)(nil)

// labelsOf returns the labels of an object in JSON without white space, as JSON, "" for none. Objects
// with the same labels share the text.
func labelsOf(object []byte) unique.Handle[string] {
	var found []byte
	members(object, func(key, rest []byte) bool {
		if string(key) != `"metadata"` {
			return true
		}
		members(rest, func(key, rest []byte) bool {
			if string(key) == `"labels"` {
				found = first(rest)
			}
			return found == nil
		})
		return false
	})
	return unique.Make(string(found))
}

// members calls visit with the members of the object that a text begins with, until it returns false:
// with the key in quotes, and with the text from the value on. For other values it does nothing.
func members(text []byte, visit func(key, rest []byte) bool) {
	if len(text) == 0 || text[0] != '{' {
		return
	}
	for i := 1; i < len(text) && text[i] == '"'; i++ {
		colon, _ := jsonend.Text(text, i)
		if colon == jsonend.None || colon >= len(text) || !visit(text[i:colon], text[colon+1:]) {
			return
		}
		if i = jsonend.Value(text, colon+1); i == jsonend.None {
			return
		}
	}
}

// first returns the value that a text begins with, nil for none.
func first(text []byte) []byte {
	if end := jsonend.Value(text, 0); end != jsonend.None {
		return text[:end]
	}
	return nil
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
	members(s.json, func(key, rest []byte) bool {
		if name, _ := jsonend.Decode(key); string(name) == label {
			of, _ := jsonend.Decode(first(rest)) // nothing for null, as decoding has it
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
