package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/informer/internal/objects"
	"github.com/informd/informd/pkg/journal"
)

// DefaultQueueLimit is the default of [Options.QueueLimit].
const DefaultQueueLimit = 1024

// Options configure the informers of a factory. The zero value watches all objects.
type Options struct {
	// Namespace is empty for all namespaces.
	Namespace string
	// LabelSelector and FieldSelector are evaluated by the API server. They apply to all resources of the
	// factory, also to those that a Reconciler names as owned.
	LabelSelector, FieldSelector string
	// DefaultResync is the period after which a handler gets an update of each object without a
	// change, 0 for never. A handler can be added with another period.
	DefaultResync time.Duration
	// QueueLimit is the limit of notifications that wait for one handler (default: 1,024). If
	// the queue is full, the informer blocks its watch, and flow control holds back the API
	// server. Queued notifications are compressed.
	QueueLimit int
	// Journal makes a restart warm: a later informer, of the same or another process, fills its
	// store from the journal without a list. Handlers that are added before its start get only
	// the changes since the earlier informer, deletions included; handlers that are added later
	// begin with all objects. After a crash, handlers can get the last changes again, and a
	// changed object can be an add, because its earlier state is not kept.
	//
	// The program owns the journal, and closes it after the end of all informers. [journal.Open]
	// opens one in a directory. A journal stores objects as they are, so full informers of Secrets are
	// refused. One journal has one informer per resource, always with the same version, namespace,
	// selectors and mode.
	Journal *journal.Journal
	// Cluster is the name of the cluster in the journal (default: that of the journal, or
	// "default").
	Cluster string
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Journal != nil {
		o.Cluster = cmp.Or(o.Cluster, o.Journal.Cluster())
	}
	o.Cluster = cmp.Or(o.Cluster, "default")
	if o.QueueLimit <= 0 {
		o.QueueLimit = DefaultQueueLimit
	}
	return o
}

// Factory makes informers that share connections. It has the
// methods of dynamicinformer.DynamicSharedInformerFactory. Its methods may be called concurrently.
type Factory struct {
	full, metadata *runner

	mu        sync.Mutex
	informers map[id]*running
	// removed has, by resource, when the informer that was removed last has released the resource.
	removed  map[id]<-chan struct{}
	shutdown bool
	all      sync.WaitGroup
}

// GenericInformer has the methods of client-go's interface of that name.
type GenericInformer interface {
	Informer() cache.SharedIndexInformer
	Lister() cache.GenericLister
}

// id names an informer of a factory.
type id struct {
	gvr      schema.GroupVersionResource
	metadata bool
}

// running is an informer, and how it ends.
type running struct {
	generic
	cancel context.CancelFunc // nil before its start
	ended  chan struct{}
	// users counts callers of Use that have not released it. If kept, Start has been called for
	// it, and it outlives them.
	users int
	kept  bool
}

// NewFactory returns a factory. It does not contact the API server. The error is that of config
// or of a selector. A config with a Transport uses it: any source that answers list, watch and
// discovery, such as that of package informertest.
func NewFactory(config *rest.Config, o Options) (*Factory, error) {
	if config == nil {
		return nil, errors.New("new factory: a rest.Config is required")
	}
	o = o.withDefaults()
	config = rest.CopyConfig(config)
	f := &Factory{
		full: newRunner(config, o, dynwatch.Full), metadata: newRunner(config, o, dynwatch.Metadata),
		informers: make(map[id]*running), removed: make(map[id]<-chan struct{}),
	}
	m, err := f.full.open()
	if err != nil {
		return nil, fmt.Errorf("new factory: %w", err)
	}
	defer m.Close()
	if err := m.Check([]dynwatch.Resource{f.full.resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})}); err != nil {
		if fault := new(dynwatch.ResourceError); errors.As(err, &fault) {
			err = fault.Err // the resource is an example
		}
		return nil, fmt.Errorf("new factory: %w", err)
	}
	return f, nil
}

// generic implements [GenericInformer].
type generic struct{ informer *sharedInformer }

var _ GenericInformer = generic{}

// Informer implements [GenericInformer].
func (g generic) Informer() cache.SharedIndexInformer { return g.informer }

// Lister implements [GenericInformer].
func (g generic) Lister() cache.GenericLister {
	return genericLister{NewLister[runtime.Object](g.informer.store, g.informer.gvr.GroupResource())}
}

// ForResource does what client-go's factory documents. Objects are
// *unstructured.Unstructured. One factory watches a resource in one version.
func (f *Factory) ForResource(gvr schema.GroupVersionResource) GenericInformer {
	return f.get(id{gvr, false})
}

// ForMetadata is ForResource for metadata only: objects are *metav1.PartialObjectMetadata, and
// the rest of them never crosses the wire.
func (f *Factory) ForMetadata(gvr schema.GroupVersionResource) GenericInformer {
	return f.get(id{gvr, true})
}

func (f *Factory) get(of id) GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known(of).generic
}

// known returns the informer, which it makes if there is none. The caller holds the lock.
func (f *Factory) known(of id) *running {
	known := f.informers[of]
	if known == nil {
		r, into := f.full, objects.UnstructuredType()
		if of.metadata {
			r, into = f.metadata, objects.MetadataType()
		}
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		known = &running{generic: generic{newSharedInformer(r, of.gvr, into, indexers)}, ended: make(chan struct{})}
		f.informers[of] = known
	}
	return known
}

// Use returns the informer of [Factory.ForResource] for one of several users, and starts it if it
// is not started. One that has ended it replaces. The informer ends when all of its users have called
// release, unless [Factory.Start] has been called for it: then it ends as that says. Release waits
// for the handlers as [Factory.Stop] does; calling it again does nothing.
func (f *Factory) Use(gvr schema.GroupVersionResource) (i GenericInformer, release func()) {
	return f.use(id{gvr, false})
}

// UseMetadata is [Factory.Use] of the informer of [Factory.ForMetadata].
func (f *Factory) UseMetadata(gvr schema.GroupVersionResource) (i GenericInformer, release func()) {
	return f.use(id{gvr, true})
}

func (f *Factory) use(of id) (i GenericInformer, release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.informers[of]; known != nil && known.informer.IsStopped() {
		f.remove(of, known)
	}
	known := f.known(of)
	known.users++
	if known.cancel == nil && !f.shutdown {
		f.start(of, known)
	}
	return known.generic, sync.OnceFunc(func() { f.release(of, known) })
}

// end ends an informer that was removed, and waits until its handlers have returned.
func (r *running) end() {
	if r.cancel != nil {
		r.cancel()
		<-r.ended
	}
}

// release ends an informer after its last user.
func (f *Factory) release(of id, known *running) {
	f.mu.Lock()
	known.users--
	last := known.users == 0 && !known.kept
	if last && f.informers[of] == known {
		f.remove(of, known)
	}
	f.mu.Unlock()
	if last {
		known.end()
	}
}

// Stats returns the counts of the informers of a resource, of both modes together.
func (f *Factory) Stats(gvr schema.GroupVersionResource) Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum Stats
	for _, metadata := range []bool{false, true} {
		if known := f.informers[id{gvr, metadata}]; known != nil {
			s := &known.informer.stats
			sum.Delivered += s.delivered.Load()
			sum.Panics += s.panics.Load()
			sum.Malformed += s.malformed.Load()
		}
	}
	return sum
}

// Start does what client-go's factory documents: it starts the informers that
// are not started yet, and does not wait.
func (f *Factory) Start(stop <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shutdown {
		return
	}
	for of, known := range f.informers {
		if known.kept {
			continue
		}
		known.kept = true
		if known.cancel == nil {
			f.start(of, known)
		}
		f.all.Go(func() {
			defer known.cancel()
			select {
			case <-stop:
			case <-known.ended:
			}
		})
	}
}

// remove forgets an informer, which the caller then ends. The caller holds the lock.
func (f *Factory) remove(of id, known *running) {
	delete(f.informers, of)
	if known.cancel != nil {
		f.removed[of] = known.informer.released
	}
}

// start starts an informer, when its predecessor has released the resource. The caller holds the lock.
func (f *Factory) start(of id, known *running) {
	ctx, cancel := context.WithCancel(context.Background())
	known.cancel = cancel
	known.informer.begin()
	before := f.removed[of]
	delete(f.removed, of)
	f.all.Go(func() {
		defer close(known.ended)
		if before != nil {
			<-before
		}
		known.informer.RunWithContext(ctx)
	})
}

// started returns a running informer, or nil.
func (f *Factory) started(of id) *running {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.informers[of]; known != nil && known.cancel != nil {
		return known
	}
	return nil
}

// Stop ends the informers of a resource, of both modes: their watches, goroutines and objects.
// It waits until their handlers have returned, so that neither a handler nor a watch error handler
// may call it. ForResource and Start make and start new ones, also while Stop waits. It does not
// wait for handlers of other resources.
func (f *Factory) Stop(gvr schema.GroupVersionResource) {
	f.mu.Lock()
	var ending []*running
	for _, metadata := range []bool{false, true} {
		of := id{gvr, metadata}
		if known := f.informers[of]; known != nil {
			f.remove(of, known)
			ending = append(ending, known)
		}
	}
	f.mu.Unlock()
	for _, known := range ending {
		known.end()
	}
}

// WaitForCacheSync does what client-go's factory documents.
func (f *Factory) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	f.mu.Lock()
	waiting := make(map[id]*sharedInformer)
	for of, known := range f.informers {
		if known.cancel != nil {
			waiting[of] = known.informer
		}
	}
	f.mu.Unlock()
	result := make(map[schema.GroupVersionResource]bool, len(waiting))
	for of, i := range waiting {
		synced := cache.WaitForCacheSync(stop, i.HasSynced)
		before, both := result[of.gvr]
		result[of.gvr] = synced && (before || !both)
	}
	return result
}

// Shutdown does what client-go's factory documents: no informer starts any
// more, and it waits until those that run have ended. The channel of Start ends them, and the
// release of Use.
func (f *Factory) Shutdown() {
	f.mu.Lock()
	f.shutdown = true
	f.mu.Unlock()
	f.all.Wait()
}

// NewSharedIndexInformer returns an informer of all namespaces with its own watch. If example is
// a typed object, such as &corev1.Pod{}, objects have its type; otherwise they are
// *unstructured.Unstructured. If example is a *metav1.PartialObjectMetadata, only metadata is
// watched. It does not contact the API server. The error is that of config, or of an example that
// is no object of the resource. For a type outside of k8s.io/api only the apiVersion of the example is
// compared, if it is set: the type does not say its resource.
func NewSharedIndexInformer(config *rest.Config, gvr schema.GroupVersionResource, example runtime.Object, resync time.Duration, indexers cache.Indexers) (cache.SharedIndexInformer, error) {
	f, err := NewFactory(config, Options{DefaultResync: resync})
	if err != nil {
		return nil, err
	}
	into, err := typeOf(gvr, example)
	if err != nil {
		return nil, fmt.Errorf("new informer: %w", err)
	}
	r := f.full
	if into == objects.MetadataType() {
		r = f.metadata
	}
	return newSharedInformer(r, gvr, into, indexers), nil
}
