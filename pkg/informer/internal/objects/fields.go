package objects

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/internal/jsonend"
	"github.com/informd/informd/pkg/fieldpath"
)

// rawObject is an object as JSON without white space, which the index functions of this file read.
type rawObject []byte

// Fields are the paths of an index.
type Fields struct{ Set *fieldpath.Set }

// Values is an index function over the values at the paths. It takes JSON, of which the store does not
// decode more, and objects that can be marshalled to JSON.
func (f Fields) Values(obj any) (values []string, err error) {
	text, ok := obj.(rawObject)
	if !ok {
		if text, err = json.Marshal(obj); err != nil {
			return nil, fmt.Errorf("field index: %w", err)
		}
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("field index: %T is no object", obj)
	}
	f.Set.Walk(text, func(m fieldpath.Match) {
		value, isText := jsonend.Decode(m.Value)
		switch {
		case isText:
		case m.Value[0] == '{', m.Value[0] == '[', m.Value[0] == 'n':
			return
		default:
			value = m.Value
		}
		if !slices.Contains(values, string(value)) {
			values = append(values, string(value))
		}
	})
	return values, nil
}

// readsJSON reports whether an index function is one of this file: method values of a type share
// their code.
func readsJSON(index cache.IndexFunc) bool { return same(index, Fields{}.Values) }
