package informer

import (
	"errors"
	"fmt"
	"strconv"

	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/fieldpath"
	"github.com/informd/informd/pkg/informer/internal/objects"
)

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
	return objects.Fields{Set: fieldpath.NewSet(parsed...)}.Values, nil
}

// LabelIndex returns an index function over the value of a label; see [FieldIndex].
func LabelIndex(label string) cache.IndexFunc {
	return indexOf("metadata.labels[" + strconv.Quote(label) + "]")
}

// OwnerIndex returns an index function over the UIDs of the owners of an object; see [FieldIndex].
func OwnerIndex() cache.IndexFunc {
	return indexOf("metadata.ownerReferences[].uid")
}

func indexOf(text string) cache.IndexFunc {
	index, err := FieldIndex(text)
	if err != nil { // no object has a label with such a name
		return objects.Fields{Set: fieldpath.NewSet()}.Values
	}
	return index
}
