package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Result is the answer of a [ReconcileFunc] that succeeded.
type Result struct {
	// RequeueAfter is the time until the next call for the same key. A change, or an earlier
	// request of the same key, causes the call sooner. 0 waits for the next change.
	RequeueAfter time.Duration
}

// ReconcileFunc brings the state that belongs to one object up to date. It reads the object from
// the lister of the factory, which has no deleted objects. One call can stand for several changes.
// If the function returns an error or panics, it is called again with a growing delay, and its
// Result is ignored.
//
// Calls for one key never overlap. With several workers, calls for different keys do.
// [Reconciler.Run] waits for running calls, so the function must return soon after ctx ends.
// The key of a cluster-wide object has no namespace.
type ReconcileFunc func(ctx context.Context, key types.NamespacedName) (Result, error)

// ReconcilerOptions configure a [Reconciler]. The zero value has one worker and no limit of
// retries.
type ReconcilerOptions struct {
	// Metadata watches metadata only: the objects are those of [Factory.ForMetadata].
	Metadata bool
	// Workers is the number of keys that are reconciled at a time (default: 1).
	Workers int
	// RateLimiter sets the delay of each retry, and keeps its counts from one Run to the next. The default, one
	// for each Run, is that of controller-runtime: 5 ms, doubled with each retry up to 1,000 s, and at most 10
	// retries per second after 100.
	RateLimiter workqueue.TypedRateLimiter[types.NamespacedName]
	// MaxRetries is the number of retries of a key that NumRequeues of the RateLimiter counts, 0
	// for no limit. After it, the key waits for the next change, which starts the count again.
	MaxRetries int
	// GaveUp is called after the last retry with the last error, in the worker of the key. Nil is
	// valid.
	GaveUp func(ctx context.Context, key types.NamespacedName, err error)
	// Owned are the resources whose changes enqueue the owner instead of the object.
	Owned []Owned
	// OwnerKind is the kind of the reconciled resource, as in ownerReferences. Owned requires it.
	OwnerKind schema.GroupKind
	// ClusterWide says that the objects of the reconciled resource have no namespace.
	// ownerReferences do not contain it.
	ClusterWide bool
	// ResyncPeriod is the period after which all objects are enqueued without a change. The
	// default is DefaultResync of the factory.
	ResyncPeriod time.Duration
}

// ReconcilerStats counts what a [Reconciler] did.
type ReconcilerStats struct {
	// Calls counts calls of the function, Errors those that failed, with those that panicked.
	Calls, Errors uint64
	// Panics counts panics of the function and of GaveUp.
	Panics uint64
	// GaveUp counts keys after their last retry.
	GaveUp uint64
}

// Reconciler is a controller: it calls a function for each object that was added, changed or
// deleted. Its methods may be called concurrently.
type Reconciler struct {
	factory   *Factory
	of        id
	reconcile ReconcileFunc
	options   ReconcilerOptions
	logger    *slog.Logger

	busy                          atomic.Bool // Run runs
	calls, errors, panics, gaveUp atomic.Uint64
}

type keyQueue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// NewReconciler returns a reconciler of the objects of a resource. It makes the informers of its
// resources, which [Factory.Start] starts, so call Start afterwards. It does not contact the API
// server; the error is that of an argument.
func NewReconciler(f *Factory, gvr schema.GroupVersionResource, reconcile ReconcileFunc, o ReconcilerOptions) (*Reconciler, error) {
	switch {
	case f == nil || reconcile == nil:
		return nil, errors.New("new reconciler: a Factory and a ReconcileFunc are required")
	case len(o.Owned) > 0 && o.OwnerKind.Kind == "":
		return nil, fmt.Errorf("new reconciler of %s: Owned requires OwnerKind, the kind of the owners", gvr)
	}
	r := &Reconciler{
		factory: f, of: id{gvr, o.Metadata}, reconcile: reconcile, options: o,
		logger: f.full.options.Logger.With(slog.String("reconciler", gvr.String())),
	}
	sources := r.sources(nil)
	for _, s := range sources {
		if s.of.gvr.Version == "" || s.of.gvr.Resource == "" {
			return nil, fmt.Errorf("new reconciler of %s: %q needs a version and a resource", gvr, s.of.gvr)
		}
	}
	for _, s := range sources {
		f.get(s.of)
	}
	return r, nil
}

// Stats returns the counts of all runs.
func (r *Reconciler) Stats() ReconcilerStats {
	return ReconcilerStats{Calls: r.calls.Load(), Errors: r.errors.Load(), Panics: r.panics.Load(), GaveUp: r.gaveUp.Load()}
}

// Run blocks until ctx ends and the workers have returned. It waits until the caches of all its
// resources have synced, and then reconciles each object once, and after each change. When ctx
// ends, no further call begins. Keys that wait then are dropped: the next Run begins with all
// objects, but without those deleted in between. Only one Run is possible at a time.
//
// If ctx ends, Run returns nil. The error says that an informer is not started or has ended, or
// that Run runs already. Errors of the API server are no errors of Run: it waits, and the
// informers report them.
func (r *Reconciler) Run(ctx context.Context) error {
	if !r.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("run reconciler of %s: it runs already", r.of.gvr)
	}
	defer r.busy.Store(false)
	if err := r.run(ctx); ctx.Err() == nil {
		return err
	}
	return nil // the informers can have ended with ctx, before Run saw it
}

// run returns the reason for its end.
func (r *Reconciler) run(ctx context.Context) error {
	limiter := r.options.RateLimiter
	if limiter == nil {
		limiter = workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()
	}
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	until, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer queue.ShutDown()
	defer cancel(nil)
	// The resource itself is the first source: its objects show whether owners have a namespace.
	for _, s := range r.sources(queue) {
		known := r.factory.started(s.of)
		if known == nil {
			return fmt.Errorf("run reconciler of %s: the informer of %s is not started; call Factory.Start after NewReconciler", r.of.gvr, s.of.gvr)
		}
		handle, err := known.informer.AddEventHandlerWithOptions(s.handler, cache.HandlerOptions{ResyncPeriod: s.resync})
		if err != nil {
			return fmt.Errorf("run reconciler of %s: %w", r.of.gvr, err)
		}
		all.Go(func() {
			select {
			case <-known.ended:
				cancel(fmt.Errorf("run reconciler of %s: the informer of %s has ended", r.of.gvr, s.of.gvr))
			case <-until.Done():
			}
			_ = known.informer.RemoveEventHandler(handle) // its only error is a foreign handle
		})
		select {
		case <-handle.HasSyncedChecker().Done():
		case <-until.Done():
		}
	}
	for range cmp.Or(max(r.options.Workers, 0), 1) {
		all.Go(func() { r.work(until, queue) })
	}
	<-until.Done()
	return context.Cause(until)
}

func (r *Reconciler) work(ctx context.Context, queue keyQueue) {
	for {
		key, ended := queue.Get()
		if ended || ctx.Err() != nil {
			return
		}
		r.handle(ctx, queue, key)
	}
}

// handle reconciles a key once. The queue gives it to no other worker before Done.
func (r *Reconciler) handle(ctx context.Context, queue keyQueue, key types.NamespacedName) {
	defer queue.Done(key)
	var result Result
	r.calls.Add(1)
	err := r.guard(key, func() (err error) {
		result, err = r.reconcile(ctx, key)
		return err
	})
	if err == nil {
		queue.Forget(key)
		if result.RequeueAfter > 0 {
			queue.AddAfter(key, result.RequeueAfter)
		}
		return
	}
	r.errors.Add(1)
	log := r.logger.With(slog.String("key", cache.NamespacedNameAsObjectName(key).String()), slog.Any("error", err))
	switch retries := queue.NumRequeues(key); {
	case ctx.Err() != nil:
		queue.Forget(key)
		log.Info("reconcile interrupted; the next run begins with all objects")
	case r.options.MaxRetries > 0 && retries >= r.options.MaxRetries:
		queue.Forget(key)
		r.gaveUp.Add(1)
		log.Error("reconcile failed; waiting for the next change of the object", slog.Int("retries", retries))
		if r.options.GaveUp != nil {
			_ = r.guard(key, func() error { r.options.GaveUp(ctx, key, err); return nil }) // logged
		}
	default:
		queue.AddRateLimited(key)
		log.Warn("reconcile failed; retrying", slog.Int("retries", retries))
	}
}

// guard calls a function of the program. A panic is an error.
func (r *Reconciler) guard(key types.NamespacedName, call func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			r.panics.Add(1)
			err = fmt.Errorf("panic: %v", fault)
			r.logger.Error("reconciler panicked; handling it as an error", slog.String("key", cache.NamespacedNameAsObjectName(key).String()),
				slog.String("panic", fmt.Sprint(fault)), slog.String("stack", string(debug.Stack())))
		}
	}()
	return call()
}
