package informer

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/informer/internal/objects"
)

// typeOf returns the type of the objects that are like an example. The error says that they are no
// objects of the resource: decoding would leave most of their fields empty.
func typeOf(gvr schema.GroupVersionResource, example runtime.Object) (reflect.Type, error) {
	t := reflect.TypeOf(example)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(example).IsNil() {
		return objects.UnstructuredType(), nil
	}
	t = t.Elem()
	kind := example.GetObjectKind().GroupVersionKind()
	foreign := t != objects.MetadataType() && kind.Kind != "" && kind.GroupVersion() != gvr.GroupVersion()
	if group, version := path.Split(strings.TrimPrefix(t.PkgPath(), "k8s.io/api/")); group+version != t.PkgPath() {
		resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Version: version, Kind: t.Name()})
		foreign = foreign || resource.Resource != gvr.Resource || version != gvr.Version ||
			path.Clean(group) != packageOf(gvr.Group)
	}
	if foreign {
		return nil, fmt.Errorf("objects of %s are not of type %s; pass an example of the resource's type", gvr, t)
	}
	return t, nil
}

// packageOf returns the folder of a group in k8s.io/api.
func packageOf(group string) string {
	switch group {
	case "":
		return "core"
	case "internal.apiserver.k8s.io":
		return "apiserverinternal"
	}
	folder, _, _ := strings.Cut(group, ".")
	return folder
}
