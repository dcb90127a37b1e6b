package informer

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/fieldpath"
)

// rawObject is an object as JSON without white space, which the index functions of this file read.
type rawObject []byte

// FieldIndex returns an index function over the values at the paths, in the syntax of package
// fieldpath, as in spec.nodeName or spec.volumes[].secret.secretName. The values are
// texts; numbers and booleans are those of JSON. An object is in the index once for each
// different value, and not for objects, arrays and null.
//
// Informers of this package read the values from the JSON of an object, without decoding it. The
// function also takes objects that can be marshalled to JSON, as other stores call it.
func FieldIndex(paths ...string) (cache.IndexFunc, error) {
	if len(paths) == 0 {
		return nil, errors.New("field index: a path is required")
	}
	parsed := make([]fieldpath.Path, len(paths))
	for i, text := range paths {
		var err error
		if parsed[i], err = fieldpath.Parse(text); err != nil {
			return nil, fmt.Errorf("field index: %w", err)
		}
	}
	return fields{fieldpath.NewSet(parsed...)}.values, nil
}

// LabelIndex returns an index function over the value of a label; see [FieldIndex].
func LabelIndex(label string) cache.IndexFunc {
	path, err := fieldpath.Parse("metadata.labels[" + strconv.Quote(label) + "]")
	if err != nil {
		// No object has a label with such a name.
		return fields{fieldpath.NewSet()}.values
	}
	return fields{fieldpath.NewSet(path)}.values
}

// OwnerIndex returns an index function over the UIDs of the owners of an object; see [FieldIndex].
func OwnerIndex() cache.IndexFunc {
	path, err := fieldpath.Parse("metadata.ownerReferences[].uid")
	if err != nil {
		return fields{fieldpath.NewSet()}.values // which does not happen
	}
	return fields{fieldpath.NewSet(path)}.values
}

// fields are the paths of an index.
type fields struct{ set *fieldpath.Set }

func (f fields) values(obj any) (values []string, err error) {
	text, ok := obj.(rawObject)
	if !ok {
		if text, err = json.Marshal(obj); err != nil {
			return nil, fmt.Errorf("field index: %w", err)
		}
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("field index: %T is no object", obj)
	}
	f.set.Walk(text, func(m fieldpath.Match) {
		value, isText := fieldpath.Text(m.Value)
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
func readsJSON(index cache.IndexFunc) bool {
	return reflect.ValueOf(index).Pointer() == reflect.ValueOf(fields{}.values).Pointer()
}
