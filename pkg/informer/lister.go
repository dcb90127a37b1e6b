package informer

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer/internal/objects"
)

// Lister reads objects as client-go's typed listers do, with T as *corev1.Pod. Of the store of an
// informer of this package it decodes only what it returns. client-go's listers ask a store for all
// objects, and look at the labels of each.
type Lister[T runtime.Object] struct {
	indexer   cache.Indexer
	resource  schema.GroupResource
	namespace string
}

// NewLister returns the lister of an indexer. The resource is for errors. The indexer may be another
// one than that of an informer of this package, as in tests.
func NewLister[T runtime.Object](indexer cache.Indexer, resource schema.GroupResource) Lister[T] {
	return Lister[T]{indexer: indexer, resource: resource}
}

// Namespace returns the lister of one namespace, or of all if the name is empty.
func (l Lister[T]) Namespace(name string) Lister[T] {
	l.namespace = name
	return l
}

// List returns the objects that a selector selects.
func (l Lister[T]) List(selector labels.Selector) (list []T, err error) {
	var found []any
	if s, ok := l.indexer.(*objects.Store); ok {
		found = s.Select(l.namespace, selector)
	} else if err := cache.ListAllByNamespace(l.indexer, l.namespace, selector, func(o any) { found = append(found, o) }); err != nil {
		return nil, fmt.Errorf("list %s: %w", l.resource, err)
	}
	for _, item := range found {
		o, err := l.typed(item)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// Get returns an object by its name, of a lister of all namespaces by namespace/name. If there is none,
// the error is one for which apierrors.IsNotFound is true.
func (l Lister[T]) Get(name string) (o T, err error) {
	key := name
	if l.namespace != "" {
		key = l.namespace + "/" + name
	}
	item, exists, err := l.indexer.GetByKey(key)
	switch {
	case err != nil:
		return o, fmt.Errorf("get %s %s: %w", l.resource, key, err)
	case !exists:
		return o, apierrors.NewNotFound(l.resource, name)
	}
	return l.typed(item)
}

func (l Lister[T]) typed(item any) (T, error) {
	o, ok := item.(T)
	if !ok {
		return o, fmt.Errorf("%s: the objects of the informer are %T, not %T", l.resource, item, o)
	}
	return o, nil
}

// genericLister is a lister with client-go's interface.
type genericLister struct{ Lister[runtime.Object] }

// ByNamespace implements [cache.GenericLister].
func (l genericLister) ByNamespace(name string) cache.GenericNamespaceLister {
	return l.Namespace(name)
}
