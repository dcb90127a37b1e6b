package informer

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/fieldpath"
	"github.com/informd/informd/pkg/informer/internal/objects"
)

// ForEach calls f with some fields of each object in the store of an informer of this package, until
// f returns false. Fields are paths in the syntax of package fieldpath, as in spec.nodeName or
// spec.containers[].image.
//
// The objects contain the values at the paths, the objects and arrays around these values, and
// always metadata.namespace and metadata.name. An object or array without remaining members stays
// as {} or []. The rest is not decoded. Objects of typed and of metadata informers have the type
// *unstructured.Unstructured as well. f may change and keep an object.
//
// ForEach holds one object at a time in memory, and no lock while f runs, so that f may read and
// change the store. The order is random. Each object is one of its states during the call. Objects
// that are added during the call may be missing. An object that is deleted and created again
// during the call can be passed twice.
//
// The error is that of a path, of a store that is not of this package, or of an object that cannot be
// decoded. The last one ends the loop.
func ForEach(of cache.Store, fields []string, f func(key types.NamespacedName, o *unstructured.Unstructured) bool) error {
	s, ok := of.(*objects.Store)
	if !ok {
		return fmt.Errorf("for each object: %T is no store of package informer", of)
	}
	paths := make([]fieldpath.Path, 0, len(fields)+2)
	for _, text := range slices.Concat(fields, []string{"metadata.namespace", "metadata.name"}) {
		path, err := fieldpath.Parse(text)
		if err != nil {
			return fmt.Errorf("for each object: field %q: %w", text, err)
		}
		paths = append(paths, path)
	}
	mask := fieldpath.NewProjection(fieldpath.NewSet(paths...), nil)
	var err error
	s.Each(func(e *objects.Entry) bool {
		var o *unstructured.Unstructured
		if o, err = e.Masked(mask); err != nil {
			err = fmt.Errorf("for each object: object %s: %w", e.Key, err)
			return false
		}
		return f(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o)
	})
	return err
}
