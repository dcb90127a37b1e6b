package informer

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Owned is a resource whose objects have controlling owners: an ownerReference with controller:
// true. Changes enqueue the owner before and after the change, deletions the last one. Other
// ownerReferences enqueue nothing.
type Owned struct {
	Resource schema.GroupVersionResource
	// Metadata watches metadata only: the objects are those of [Factory.ForMetadata].
	Metadata bool
}

// source is a resource whose notifications enqueue keys.
type source struct {
	of      id
	handler cache.ResourceEventHandler
	resync  *time.Duration // nil for the default of the factory
}

// onKey is a handler that needs the key only: objects are not decoded for it.
type onKey struct {
	cache.ResourceEventHandlerFuncs
	call func(key string)
}

func (r *Reconciler) sources(queue keyQueue) []source {
	own := source{of: r.of, handler: onKey{call: func(key string) {
		namespace, name, namespaced := strings.Cut(key, "/")
		if !namespaced {
			namespace, name = "", key
		}
		queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}}}
	if r.options.ResyncPeriod > 0 {
		own.resync = &r.options.ResyncPeriod
	}
	all := []source{own}
	add := func(o any) { r.enqueueOwner(queue, o) }
	for _, owned := range r.options.Owned {
		all = append(all, source{of: id{owned.Resource, owned.Metadata}, resync: new(time.Duration), handler: cache.ResourceEventHandlerFuncs{
			AddFunc: add, UpdateFunc: func(before, now any) { add(before); add(now) }, DeleteFunc: add,
		}})
	}
	return all
}

// enqueueOwner enqueues the controlling owner of an object, if it has the wanted kind.
func (r *Reconciler) enqueueOwner(queue keyQueue, o any) {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	object, ok := o.(metav1.Object)
	if !ok {
		return
	}
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() != r.options.OwnerKind {
		return
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name}
	if r.options.ClusterWide {
		key.Namespace = ""
	}
	queue.Add(key)
}
