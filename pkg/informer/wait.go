package informer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// bookmarkPoll is the period in which WaitFor reads the watch position, which bookmarks move
// without an event.
const bookmarkPoll = 250 * time.Millisecond

// errEnded is the error of WaitFor if the informer ends.
var errEnded = errors.New("the informer has ended")

// WaitFor blocks until the store of a resource has all changes up to a resourceVersion, for
// example that of an object that the program has just written: then it reads its own write. The
// store can be newer. If the object is outside of the selectors or the namespace of the factory,
// WaitFor waits for the next bookmark, which the API server sends about once a minute. With a
// Journal, it waits for the next event of the resource instead.
//
// The error is that of ctx, of a resourceVersion that is no number, or that no informer of the
// resource is started, or that it has ended.
func (f *Factory) WaitFor(ctx context.Context, gvr schema.GroupVersionResource, resourceVersion string) error {
	want, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("wait for %s: resourceVersion %q is no number", gvr.GroupResource(), resourceVersion)
	}
	found := false
	for _, metadata := range []bool{false, true} {
		known := f.started(id{gvr, metadata})
		if known == nil {
			continue
		}
		found = true
		if err := known.informer.waitFor(ctx, want, known.ended); err != nil {
			return fmt.Errorf("wait for resourceVersion %s of %s: %w", resourceVersion, gvr.GroupResource(), err)
		}
	}
	if !found {
		return fmt.Errorf("wait for %s: no informer is started; call Factory.Start after ForResource, or Use", gvr.GroupResource())
	}
	return nil
}

func (i *sharedInformer) waitFor(ctx context.Context, want uint64, ended <-chan struct{}) error {
	poll := time.NewTicker(bookmarkPoll)
	defer poll.Stop()
	for {
		reached, changed := i.position.reached(want)
		if reached || i.HasSynced() && i.runner.position(i) >= want {
			return nil
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// position is the resourceVersion up to which a store has all changes. A list brings objects in
// another order than that of their changes, and so moves it at its end only.
type position struct {
	mu      sync.Mutex
	rv      uint64
	epoch   uint64 // of rv
	listing bool
	changed chan struct{} // nil if no caller waits
}

// reached reports whether the position is at least want, and otherwise returns a channel that is
// closed when the position changes.
func (p *position) reached(want uint64) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rv != 0 && p.rv >= want {
		return true, nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return false, p.changed
}

// list says that events of a list follow.
func (p *position) list() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listing = true
}

// enter is called before each event. After a rollback, its epoch is newer, and resourceVersions of
// the one before say nothing.
func (p *position) enter(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch > p.epoch {
		p.epoch, p.rv = epoch, 0
	}
}

// listed ends a list at its resourceVersion.
func (p *position) listed(rv uint64) {
	p.mu.Lock()
	p.listing = false
	p.mu.Unlock()
	p.watched(rv)
}

// watched is called after each event of a watch.
func (p *position) watched(rv uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listing || rv == 0 {
		return
	}
	p.rv = rv
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
