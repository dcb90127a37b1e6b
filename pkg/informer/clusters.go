package informer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// ClusterKey names an object of one of several clusters.
type ClusterKey struct {
	Cluster string
	types.NamespacedName
}

// String returns cluster/namespace/name.
func (k ClusterKey) String() string { return k.Cluster + "/" + k.NamespacedName.String() }

// ClusterObject is an object and its cluster. The object is a new copy.
type ClusterObject struct {
	Cluster string
	runtime.Object
}

// Clusters are the factories of several clusters, with a merged view of each resource. No cluster
// waits for another one: reads return the objects that the caches have. The methods may be called
// concurrently. A handler must not call Remove and Shutdown, which wait for handlers.
type Clusters struct {
	mu      sync.Mutex
	members map[string]*member
	views   map[id]*ClusterInformer
	ctx     context.Context //nolint:containedctx // of Start, for clusters that are added later
}

// member is a cluster. Its informers end with done.
type member struct {
	factory *Factory
	done    <-chan struct{} // nil before Start
	cancel  context.CancelFunc
}

// ClusterInformer is the view of one resource in all clusters.
type ClusterInformer struct {
	of       id
	clusters *Clusters
	setups   []ClusterSetup // the lock of clusters guards it
}

// ClusterSetup sets the informer of a cluster up, before it starts: with handlers, which can use the name of
// the cluster, index functions or a transform. It must not call methods of [Clusters].
type ClusterSetup func(cluster string, i cache.SharedIndexInformer) error

// NewClusters returns a view of clusters by name. It takes over the factories: only Clusters may
// start and stop their informers. The error says that a factory is nil.
func NewClusters(factories map[string]*Factory) (*Clusters, error) {
	c := &Clusters{members: make(map[string]*member), views: make(map[id]*ClusterInformer)}
	for name, f := range factories {
		if err := c.Add(name, f); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add adds a cluster, also while others run. It calls the functions of all views for the cluster. If Start was
// called, the informers start; Add does not wait for them. The error says that a cluster has that
// name, or is that of a [ClusterSetup].
func (c *Clusters) Add(name string, f *Factory) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f == nil:
		return fmt.Errorf("add cluster %s: a Factory is required", name)
	case c.members[name] != nil:
		return fmt.Errorf("add cluster %s: a cluster has that name; remove it first", name)
	}
	m := &member{factory: f}
	for _, view := range c.views {
		g := m.factory.get(view.of)
		for _, setup := range view.setups {
			if err := setup(name, g.Informer()); err != nil {
				return fmt.Errorf("add cluster %s: %w", name, err)
			}
		}
	}
	c.members[name] = m
	c.start(m)
	return nil
}

// start starts the informers that are not started. The caller holds the lock.
func (c *Clusters) start(m *member) {
	if c.ctx == nil {
		return
	}
	if m.done == nil {
		ctx, cancel := context.WithCancel(c.ctx)
		m.done, m.cancel = ctx.Done(), cancel
	}
	m.factory.Start(m.done)
}

// Start starts the informers that are not started, and does not wait. They end with the ctx of the
// first call.
func (c *Clusters) Start(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx = ctx
	}
	for _, m := range c.members {
		c.start(m)
	}
}

// Remove ends the informers of a cluster, and waits until its handlers have returned. The handlers get
// no deletions: the objects still exist. If there is no such cluster, Remove does nothing.
func (c *Clusters) Remove(name string) {
	c.mu.Lock()
	m := c.members[name]
	delete(c.members, name)
	c.mu.Unlock()
	if m == nil {
		return
	}
	if m.cancel != nil {
		m.cancel()
	}
	m.factory.Shutdown()
}

// Shutdown removes all clusters.
func (c *Clusters) Shutdown() {
	var all sync.WaitGroup
	defer all.Wait()
	for name := range c.HasSynced() {
		all.Go(func() { c.Remove(name) })
	}
}

// HasSynced returns, by cluster, whether the caches of all views have the objects of their first list.
func (c *Clusters) HasSynced() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	synced := make(map[string]bool, len(c.members))
	for name, m := range c.members {
		synced[name] = true
		for of := range c.views {
			synced[name] = synced[name] && m.factory.get(of).Informer().HasSynced()
		}
	}
	return synced
}

// WaitForCacheSync waits until all clusters have synced, or until ctx ends. It returns the result of
// HasSynced.
func (c *Clusters) WaitForCacheSync(ctx context.Context) map[string]bool {
	cache.WaitForCacheSync(ctx.Done(), func() bool { return !slices.Contains(slices.Collect(maps.Values(c.HasSynced())), false) })
	return c.HasSynced()
}

// ForResource returns the view of a resource. [Factory.ForResource] describes its informers.
func (c *Clusters) ForResource(gvr schema.GroupVersionResource) *ClusterInformer {
	return c.view(id{gvr, false})
}

// ForMetadata returns the view of a resource. [Factory.ForMetadata] describes its informers.
func (c *Clusters) ForMetadata(gvr schema.GroupVersionResource) *ClusterInformer {
	return c.view(id{gvr, true})
}

func (c *Clusters) view(of id) *ClusterInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.views[of] == nil {
		c.views[of] = &ClusterInformer{of: of, clusters: c}
		for _, m := range c.members {
			m.factory.get(of) // for Start
		}
	}
	return c.views[of]
}

// Setup calls a function for the informer of each cluster, now and when a cluster is added later. The
// error joins those of the function.
func (i *ClusterInformer) Setup(setup ClusterSetup) (err error) {
	c := i.clusters
	c.mu.Lock()
	defer c.mu.Unlock()
	i.setups = append(i.setups, setup)
	for name, m := range c.members {
		if failed := setup(name, m.factory.get(i.of).Informer()); failed != nil {
			err = errors.Join(err, fmt.Errorf("set up cluster %s: %w", name, failed))
		}
	}
	return err
}

// Get returns a copy of an object. In a cluster that is not known, no object exists.
func (i *ClusterInformer) Get(key ClusterKey) (o runtime.Object, exists bool, err error) {
	g := i.informers()[key.Cluster]
	if g == nil {
		return nil, false, nil
	}
	item, exists, err := g.Informer().GetIndexer().GetByKey(key.NamespacedName.String())
	o, _ = item.(runtime.Object)
	return o, exists, err
}

// List returns copies of the objects of all clusters that a selector selects, in the order of the
// names of the clusters.
func (i *ClusterInformer) List(selector labels.Selector) ([]ClusterObject, error) {
	return i.merge(func(g GenericInformer) (all []any, err error) {
		objects, err := g.Lister().List(selector)
		for _, o := range objects {
			all = append(all, o)
		}
		return all, err
	})
}

// ByIndex returns copies of the objects of all clusters that have a value of an index, in the
// order of the names of the clusters.
func (i *ClusterInformer) ByIndex(name, value string) ([]ClusterObject, error) {
	return i.merge(func(g GenericInformer) ([]any, error) { return g.Informer().GetIndexer().ByIndex(name, value) })
}

// merge reads each cluster. The error joins those of all clusters.
func (i *ClusterInformer) merge(read func(GenericInformer) ([]any, error)) (merged []ClusterObject, err error) {
	informers := i.informers()
	for _, cluster := range slices.Sorted(maps.Keys(informers)) {
		all, failed := read(informers[cluster])
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("read cluster %s: %w", cluster, failed))
		}
		for _, item := range all {
			if o, ok := item.(runtime.Object); ok {
				merged = append(merged, ClusterObject{cluster, o})
			}
		}
	}
	return merged, err
}

func (i *ClusterInformer) informers() map[string]GenericInformer {
	i.clusters.mu.Lock()
	defer i.clusters.mu.Unlock()
	all := make(map[string]GenericInformer, len(i.clusters.members))
	for name, m := range i.clusters.members {
		all[name] = m.factory.get(i.of)
	}
	return all
}
