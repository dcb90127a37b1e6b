package informer

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer/internal/objects"
)

// registration is a handler of an informer.
type registration struct {
	informer *sharedInformer
	handler  cache.ResourceEventHandler
	logger   *slog.Logger
	resync   time.Duration
	queue    *queue
	initial  []*objects.Entry // the objects that it begins with
	// started says that its goroutine runs. The informer's lock guards it.
	started bool
	late    bool // it was added after the factory had started the informer

	removed  chan struct{}
	once     sync.Once     // closes removed
	finished chan struct{} // closed when no call can follow
	synced   *checker
}

var _ cache.ResourceEventHandlerRegistration = (*registration)(nil)

// HasSynced implements [cache.ResourceEventHandlerRegistration].
func (r *registration) HasSynced() bool { return r.synced.reached() }

// HasSyncedChecker implements [cache.ResourceEventHandlerRegistration].
func (r *registration) HasSyncedChecker() cache.DoneChecker { return r.synced }

// ShutdownChan is closed when no call of the handler runs or can follow. [cache.ShutDownEventHandler]
// waits for it.
func (r *registration) ShutdownChan() <-chan struct{} { return r.finished }

// checker implements [cache.DoneChecker].
type checker struct {
	name string
	done chan struct{}
	once sync.Once
}

func newChecker(name string) *checker { return &checker{name: name, done: make(chan struct{})} }

// Name implements [cache.DoneChecker].
func (c *checker) Name() string { return c.name }

// Done implements [cache.DoneChecker].
func (c *checker) Done() <-chan struct{} { return c.done }

func (c *checker) complete() { c.once.Do(func() { close(c.done) }) }

func (c *checker) reached() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// remove ends the handler. The caller holds the lock of the informer.
func (r *registration) remove() {
	r.once.Do(func() {
		close(r.removed)
		if !r.started {
			close(r.finished)
		}
	})
}

func (r *registration) ended(done <-chan struct{}) bool {
	select {
	case <-r.removed:
		return true
	case <-done:
		return true
	default:
		return false
	}
}

// run calls the handler until it is removed or the informer ends.
func (r *registration) run(done <-chan struct{}, complete bool) {
	for _, o := range r.initial {
		if r.ended(done) {
			return
		}
		r.deliver(notification{action: added, key: o.Key, now: o.Blob, initial: true})
	}
	r.initial = nil
	if complete {
		r.synced.complete()
	}
	var due <-chan time.Time
	if r.resync > 0 {
		ticker := time.NewTicker(r.resync)
		defer ticker.Stop()
		due = ticker.C
	}
	resync := false
	for {
		n, ok := r.queue.take() // also at the end: it says that the one before is handled
		signal(r.informer.handling)
		switch {
		case r.ended(done):
			return
		case ok:
			r.deliver(n)
			continue
		case resync && r.announce(done):
			resync = false
			continue
		}
		select {
		case <-r.queue.ready:
		case <-due:
			resync = true
		case <-r.removed:
		case <-done:
		}
	}
}

// announce delivers an update of every object. It reports false if the store is ahead of the
// handler or its queue: the handler would get older states after newer ones.
func (r *registration) announce(done <-chan struct{}) bool {
	r.informer.mu.Lock()
	if r.informer.sending || !r.queue.empty() {
		r.informer.mu.Unlock()
		return false
	}
	all := r.informer.store.Snapshot()
	r.informer.mu.Unlock()
	for _, o := range all {
		if r.ended(done) {
			break
		}
		r.deliver(notification{action: updated, key: o.Key, old: o.Blob, now: o.Blob})
	}
	return true
}

// deliver calls the handler. A panic of the handler ends only this call.
func (r *registration) deliver(n notification) {
	stats := &r.informer.stats
	defer func() {
		if fault := recover(); fault != nil {
			stats.panics.Add(1)
			r.logger.Error("handler panicked; continuing with the next notification", slog.String("key", n.key),
				slog.String("panic", fmt.Sprint(fault)), slog.String("stack", string(debug.Stack())))
		}
	}()
	if n.action == reached {
		r.synced.complete()
		return
	}
	if h, ok := r.handler.(onKey); ok {
		stats.delivered.Add(1)
		h.call(n.key)
		return
	}
	var both [2]any
	for i, b := range []objects.Blob{n.old, n.now} {
		if b.Block == nil {
			continue
		}
		o, err := b.Object()
		if err != nil {
			r.informer.failed(n.key, err)
			return
		}
		both[i] = o
	}
	stats.delivered.Add(1)
	switch n.action {
	case added:
		r.handler.OnAdd(both[1], n.initial)
	case updated:
		r.handler.OnUpdate(both[0], both[1])
	default:
		if n.unknown {
			both[0] = cache.DeletedFinalStateUnknown{Key: n.key, Obj: both[0]}
		}
		r.handler.OnDelete(both[0])
	}
}
