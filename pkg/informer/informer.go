package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/informer/internal/objects"
)

var errStarted = errors.New("informer has already started")

// Stats counts what an informer did.
type Stats struct {
	// Delivered counts calls of handlers, Panics those that panicked.
	Delivered, Panics uint64
	// Malformed counts objects that could not be decoded, transformed or indexed.
	Malformed uint64
}

type counters struct{ delivered, panics, malformed atomic.Uint64 }

// sharedInformer implements [cache.SharedIndexInformer] over one target.
type sharedInformer struct {
	gvr     schema.GroupVersionResource
	wanted  dynwatch.Resource
	runner  *runner
	logger  *slog.Logger
	store   *objects.Store
	options Options
	stats   counters
	synced  *checker
	// handling has a signal when a handler or the store of a durable informer has come further.
	handling chan struct{}
	// position is that of the store.
	position position
	// leave, if set, is called at the end.
	leave func()

	// mu makes a change of the store and the choice of the handlers that get it one step. It is
	// never held while a handler is called or a queue is full.
	mu        sync.Mutex
	handlers  []*registration
	ctx       context.Context //nolint:containedctx // that of Run, nil before
	begun     bool            // it runs, or its factory has started it and Run follows
	sending   bool            // the store has a change that not all handlers have in their queue
	stopped   bool
	transform cache.TransformFunc
	onError   cache.WatchErrorHandlerWithContext
	running   sync.WaitGroup // the handlers' goroutines
	released  chan struct{}  // closed when another informer of the resource can start

	// The goroutine that applies events has the fields below.

	// round counts lists.
	round uint64
	// With a journal: after is the sequence before that of the event, resumed says that an
	// earlier process has read the journal, and refilling that the store does not yet have the
	// objects of that time.
	after              uint64
	resumed, refilling bool
}

var _ cache.SharedIndexInformer = (*sharedInformer)(nil)

func newSharedInformer(r *runner, gvr schema.GroupVersionResource, into reflect.Type, indexers cache.Indexers) *sharedInformer {
	i := &sharedInformer{
		gvr: gvr, runner: r, options: r.options, logger: r.options.Logger.With(slog.String("resource", gvr.String())),
		synced: newChecker(gvr.String()), wanted: r.resource(gvr), handling: make(chan struct{}, 1),
		released: make(chan struct{}),
	}
	i.store = objects.New(into, indexers, i.failed)
	return i
}

// failed reports an object that cannot be used.
func (i *sharedInformer) failed(key string, err error) {
	i.stats.malformed.Add(1)
	i.logger.Error("object unusable; skipping it", slog.String("key", key), slog.Any("error", err))
}

// AddEventHandler implements [cache.SharedInformer].
func (i *sharedInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer].
func (i *sharedInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements [cache.SharedInformer]. It does not wait for the handler.
func (i *sharedInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	period := i.options.DefaultResync
	if o.ResyncPeriod != nil {
		period = *o.ResyncPeriod
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil, fmt.Errorf("handler %T was not added to shared informer because it has stopped already", h) // as client-go's
	}
	logger := i.logger
	if o.Logger != nil {
		logger = slog.New(logr.ToSlogHandler(*o.Logger))
	}
	r := &registration{
		informer: i, handler: h, logger: logger, resync: period, queue: newQueue(i.options.QueueLimit),
		late: i.begun, removed: make(chan struct{}), finished: make(chan struct{}), synced: newChecker(fmt.Sprintf("%s handler %T", i.gvr, h)),
	}
	i.handlers = append(slices.Clone(i.handlers), r)
	if i.ctx != nil {
		i.start(r)
	}
	return r, nil
}

// begin says that Run follows: handlers that are added from now on are late.
func (i *sharedInformer) begin() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.begun = true
}

// start starts the goroutine of a handler. The caller holds the lock.
func (i *sharedInformer) start(r *registration) {
	r.started = true
	r.initial = i.store.Snapshot()
	complete := i.synced.reached()
	done := i.ctx.Done()
	i.running.Go(func() {
		defer close(r.finished)
		r.run(done, complete)
	})
}

// RemoveEventHandler implements [cache.SharedInformer]. It drops notifications that wait, and does
// not wait for a running call: see [cache.ShutDownEventHandler]. A handle of another informer of
// this package changes nothing, as with client-go.
func (i *sharedInformer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("invalid handle type %T: it is not of this package", handle)
	}
	if r.informer != i {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(other *registration) bool { return other == r })
	r.remove()
	return nil
}

// GetStore implements [cache.SharedInformer].
func (i *sharedInformer) GetStore() cache.Store { return i.store }

// GetIndexer implements [cache.SharedIndexInformer].
func (i *sharedInformer) GetIndexer() cache.Indexer { return i.store }

// AddIndexers implements [cache.SharedIndexInformer].
func (i *sharedInformer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return errors.New("indexer was not added because it has stopped already") // as client-go's
	}
	return i.store.AddIndexers(indexers)
}

// GetController implements [cache.SharedInformer].
func (i *sharedInformer) GetController() cache.Controller { return controller{i} }

// controller is what client-go returns of a shared informer: one that cannot be run.
type controller struct{ *sharedInformer }

// Run implements [cache.Controller]. It does nothing.
func (controller) Run(<-chan struct{}) {}

// RunWithContext implements [cache.Controller]. It does nothing.
func (controller) RunWithContext(context.Context) {}

// HasSynced implements [cache.SharedInformer].
func (i *sharedInformer) HasSynced() bool { return i.synced.reached() }

// HasSyncedChecker implements [cache.SharedInformer].
func (i *sharedInformer) HasSyncedChecker() cache.DoneChecker { return i.synced }

// LastSyncResourceVersion implements [cache.SharedInformer]. It is that of the last event;
// bookmarks do not change it.
func (i *sharedInformer) LastSyncResourceVersion() string {
	return i.store.LastStoreSyncResourceVersion()
}

// SetWatchErrorHandler implements [cache.SharedInformer].
func (i *sharedInformer) SetWatchErrorHandler(h cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { h(r, err) })
}

// SetWatchErrorHandlerWithContext implements [cache.SharedInformer]. The handler is called when
// the state of the watch becomes Forbidden, Waiting, Stale or Degraded. The error wraps that of
// the API server or of the connection, so that apierrors.IsUnauthorized and the like work.
func (i *sharedInformer) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx != nil {
		return errStarted
	}
	i.onError = h
	return nil
}

// SetTransform implements [cache.SharedInformer].
func (i *sharedInformer) SetTransform(f cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx != nil {
		return errStarted
	}
	i.transform = f
	return nil
}

// IsStopped implements [cache.SharedInformer].
func (i *sharedInformer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// Run implements [cache.SharedInformer].
func (i *sharedInformer) Run(stop <-chan struct{}) {
	i.RunWithContext(wait.ContextForChannel(stop))
}

// RunWithContext implements [cache.SharedInformer]. It blocks until ctx ends and the handlers
// have returned; notifications that wait then are dropped. It returns at once if its watch cannot
// be started, because of wrong options, and ends if its journal fails.
func (i *sharedInformer) RunWithContext(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	i.mu.Lock()
	if i.ctx != nil || i.stopped {
		i.mu.Unlock()
		i.logger.Warn("informer has started already; it runs once")
		return
	}
	i.ctx, i.begun = ctx, true
	for _, r := range i.handlers {
		i.start(r)
	}
	i.mu.Unlock()

	// Before the start: the store has the state before each event.
	f, err := i.runner.follow(i)
	filled := err == nil && f.fill(ctx)
	if filled {
		err = i.runner.start(i)
	}
	if err != nil {
		i.logger.Error("watch not started; correct the options of the informer", slog.Any("error", err))
		i.reportError(err)
	}
	if !filled || err != nil {
		cancel()
	} else if f != nil {
		i.running.Go(func() { defer cancel(); f.read(ctx) })
	}
	<-ctx.Done()
	i.runner.stop(i)
	if f == nil {
		close(i.released)
	} else {
		defer close(i.released)
	}
	i.mu.Lock()
	i.stopped = true
	i.mu.Unlock()
	i.running.Wait()
	f.close()
	i.mu.Lock()
	i.handlers = nil
	i.mu.Unlock()
	if i.leave != nil {
		i.leave()
	}
}

// reportError calls the program's handler of errors.
func (i *sharedInformer) reportError(err error) {
	i.mu.Lock()
	h, ctx := i.onError, i.ctx
	i.mu.Unlock()
	if h == nil {
		return
	}
	defer func() {
		if fault := recover(); fault != nil {
			i.stats.panics.Add(1)
			i.logger.Error("watch error handler panicked", slog.String("panic", fmt.Sprint(fault)))
		}
	}()
	// DefaultWatchErrorHandler reads the name of the Reflector, which never runs.
	r := cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, i.store, cache.ReflectorOptions{Name: i.gvr.String(), TypeDescription: i.gvr.String()})
	h(ctx, r, err)
}
