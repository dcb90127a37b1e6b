package informertest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// Resource is a resource in one version.
type Resource struct {
	// Group is empty for the core group. Resource is the plural, as in a URL.
	Group, Version, Resource, Kind string
	// ClusterWide says that the objects have no namespace.
	ClusterWide bool
}

func (r Resource) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}
}

func (r Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

// custom reports whether a CustomResourceDefinition defines the resource.
func (r Resource) custom() bool {
	return strings.Contains(r.Group, ".") && !strings.HasSuffix(r.Group, ".k8s.io")
}

// Cluster is a fake API server. Make one with [New]. Its methods may be called concurrently.
type Cluster struct {
	mu        sync.Mutex
	changed   chan struct{} // closed and replaced with each change
	served    []Resource    // the preferred version of a group first
	store     store
	faults    []*injected
	watches   map[*watch]struct{}
	requests  []string
	pageLimit int
	silent    bool // no bookmarks by itself
	outages   int
}

// New returns a cluster without objects, at resourceVersion 100. Without resources it serves Pods,
// ConfigMaps, Secrets, Namespaces, Nodes, Services and Deployments.
func New(resources ...Resource) *Cluster {
	if len(resources) == 0 {
		resources = []Resource{
			{Version: "v1", Resource: "pods", Kind: "Pod"},
			{Version: "v1", Resource: "configmaps", Kind: "ConfigMap"},
			{Version: "v1", Resource: "secrets", Kind: "Secret"},
			{Version: "v1", Resource: "services", Kind: "Service"},
			{Version: "v1", Resource: "namespaces", Kind: "Namespace", ClusterWide: true},
			{Version: "v1", Resource: "nodes", Kind: "Node", ClusterWide: true},
			{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment"},
		}
	}
	c := &Cluster{
		changed: make(chan struct{}), watches: make(map[*watch]struct{}),
		served: []Resource{definitions(), {Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", Kind: "APIService", ClusterWide: true}},
		store:  store{rev: 100, compacted: 100, objects: make(map[key]*object)},
	}
	c.Serve(resources...)
	return c
}

// definitions is the resource whose objects are the custom resources.
func definitions() Resource {
	return Resource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition", ClusterWide: true}
}

// Config returns a new configuration for clients. Requests go to the cluster without a socket.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{Host: "http://informertest.invalid", Transport: c}
}

// do calls a function under the lock, and wakes all requests that wait.
func (c *Cluster) do(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Serve adds resources to those that the cluster serves, and to its discovery. If a group has a dot
// and is not below k8s.io, a CustomResourceDefinition is created, too.
func (c *Cluster) Serve(resources ...Resource) {
	c.do(func() {
		for _, r := range resources {
			if r.Version == "" || r.Resource == "" || r.Kind == "" {
				panic(fmt.Sprintf("informertest: resource %+v needs a version, a resource and a kind", r))
			}
			c.served = append(c.served, r)
			if r.custom() {
				c.put(definitions(), map[string]any{"metadata": map[string]any{"name": r.groupResource().String()}}, false)
			}
		}
	})
}

// Remove deletes the objects of a resource and its CustomResourceDefinition. After that its watches
// end, and the cluster serves no version of it.
func (c *Cluster) Remove(resource schema.GroupResource) {
	c.do(func() {
		for _, o := range slices.Clone(c.store.at(resource, c.store.rev)) {
			c.store.remove(o.key)
		}
		c.store.remove(key{of: definitions().groupResource(), name: resource.String()})
		c.served = slices.DeleteFunc(c.served, func(r Resource) bool { return r.groupResource() == resource })
		for w := range c.watches {
			if w.of.groupResource() == resource {
				w.ended = true
			}
		}
	})
}

// Put creates an object or replaces its content. An object is a runtime.Object, a map, or JSON as
// []byte or string. The cluster sets its resourceVersion, and its UID if there is none. A replaced
// object keeps its UID.
//
// The kind selects the resource; without one, the name of the Go type does. Put panics if the
// object is no JSON object with a name, or if its resource is not served.
func (c *Cluster) Put(object any) { c.accept(object, false) }

// Patch creates an object, or merges the fields of object into it as a JSON merge patch (RFC 7386).
// It takes and panics as [Cluster.Put].
func (c *Cluster) Patch(object any) { c.accept(object, true) }

func (c *Cluster) accept(object any, merged bool) {
	fields := fieldsOf(object)
	kind, _ := fields["kind"].(string)
	apiVersion, _ := fields["apiVersion"].(string)
	if kind == "" {
		kind = reflect.Indirect(reflect.ValueOf(object)).Type().Name()
	}
	c.do(func() {
		n := slices.IndexFunc(c.served, func(r Resource) bool {
			return r.Kind == kind && (apiVersion == "" || r.groupVersion().String() == apiVersion)
		})
		if n < 0 {
			panic(fmt.Sprintf("informertest: no resource with apiVersion %q and kind %q is served", apiVersion, kind))
		}
		c.put(c.served[n], fields, merged)
	})
}

// put stores an object of a resource. The caller holds the lock.
func (c *Cluster) put(r Resource, fields map[string]any, merged bool) {
	u := unstructured.Unstructured{Object: fields}
	k := key{r.groupResource(), u.GetNamespace(), u.GetName()}
	if k.name == "" || r.ClusterWide != (k.namespace == "") {
		panic(fmt.Sprintf("informertest: %s %q in namespace %q: wrong name or namespace", r.Kind, k.name, k.namespace))
	}
	before := map[string]any{}
	if o := c.store.objects[k]; merged && o != nil {
		before = o.fields
	}
	fields = merge(before, fields)
	fields["apiVersion"], fields["kind"] = r.groupVersion().String(), r.Kind
	c.store.put(k, fields)
}

// merge applies a JSON merge patch. It changes neither argument.
func merge(into, patch map[string]any) map[string]any {
	result := maps.Clone(into)
	for name, value := range patch {
		inner, nested := value.(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case nested:
			before, _ := result[name].(map[string]any)
			if before == nil {
				before = map[string]any{}
			}
			result[name] = merge(before, inner)
		default:
			result[name] = value
		}
	}
	return result
}

// fieldsOf returns the fields of an object as JSON has them.
func fieldsOf(object any) map[string]any {
	var text []byte
	var err error
	switch o := object.(type) {
	case []byte:
		text = o
	case string:
		text = []byte(o)
	case runtime.Object, map[string]any:
		text, err = json.Marshal(o)
	default:
		panic(fmt.Sprintf("informertest: %T is no object", object))
	}
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil || fields == nil {
		panic(fmt.Sprintf("informertest: object %T is no JSON object: %v", object, err))
	}
	return fields
}

// Delete deletes an object. It reports whether there was one. Namespace is empty for cluster-wide
// objects.
func (c *Cluster) Delete(resource schema.GroupResource, namespace, name string) (deleted bool) {
	c.do(func() { deleted = c.store.remove(key{resource, namespace, name}) })
	return deleted
}

// Objects returns copies of the objects of a resource, sorted by namespace and name.
func (c *Cluster) Objects(resource schema.GroupResource) []*unstructured.Unstructured {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []*unstructured.Unstructured{}
	for _, o := range c.store.at(resource, c.store.rev) {
		all = append(all, (&unstructured.Unstructured{Object: o.fields}).DeepCopy())
	}
	return all
}

// Revision returns the resourceVersion of the newest change.
func (c *Cluster) Revision() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.rev
}

// Requests returns the method and URL of each request up to now, as in
// "GET /api/v1/pods?limit=500".
func (c *Cluster) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Watches returns the number of open watches of a resource.
func (c *Cluster) Watches(resource schema.GroupResource) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for w := range c.watches {
		if w.of.groupResource() == resource {
			n++
		}
	}
	return n
}
