package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

const (
	// maxOrders bounds the re-snapshots of one sink that are not complete.
	maxOrders = 64
	// orderPause is the time between two attempts to begin one.
	orderPause = 5 * time.Second
)

// order is a re-snapshot that the sink was asked for. It is complete, or it fails for good,
// or a later process makes it.
type order struct {
	what   journal.Resnapshot
	answer chan resnapshotAnswer // capacity 1
}

// orders are those that are not complete, in the order in which they are made. A journal
// that outlives the process keeps them.
type orders struct {
	news   chan struct{} // capacity 1: one was added
	saving sync.Mutex    // held while they are written: the latest come last

	mu  sync.Mutex
	all []*order
}

func (o *orders) first() *order {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) == 0 {
		return nil
	}
	return o.all[0]
}

func (o *orders) add(one *order) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) >= maxOrders {
		return fmt.Errorf("%d re-snapshots of the sink are pending, which is the limit: try again when they are complete", len(o.all))
	}
	o.all = append(o.all, one)
	return nil
}

func (o *orders) remove(one *order) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = slices.DeleteFunc(o.all, func(other *order) bool { return other == one })
}

func (o *orders) requests() []journal.Resnapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]journal.Resnapshot, len(o.all))
	for i, one := range o.all {
		all[i] = one.what
	}
	return all
}

// Pending is a re-snapshot of the sink that is not complete.
type Pending struct {
	Resource string `json:"resource"`
	Run      uint64 `json:"run"`
}

func (o *orders) pending() (all []Pending) {
	for _, what := range o.requests() {
		all = append(all, Pending{Resource: resourceOf(what), Run: what.Run})
	}
	return all
}

func resourceOf(what journal.Resnapshot) string {
	first := what.Begin[0]
	return event.GroupOrCore(first.Group) + "/" + first.Resource
}

// order adds a re-snapshot. When it returns, a restart makes the re-snapshot as well, if
// the journal outlives the process.
func (r *Runner) order(ctx context.Context, what journal.Resnapshot) (*order, error) {
	select {
	case <-r.done:
		return nil, errEnded
	default:
	}
	one := &order{what: what, answer: make(chan resnapshotAnswer, 1)}
	if err := r.orders.add(one); err != nil {
		return nil, err
	}
	if err := r.keepOrders(ctx); err != nil {
		r.orders.remove(one)
		return nil, fmt.Errorf("keep the request: %w", err)
	}
	select {
	case r.orders.news <- struct{}{}:
	default:
	}
	return one, nil
}

// keepOrders writes the orders to the journal.
func (r *Runner) keepOrders(ctx context.Context) error {
	r.orders.saving.Lock()
	defer r.orders.saving.Unlock()
	return r.cursor.KeepResnapshots(ctx, r.orders.requests())
}

// serveOrders makes one re-snapshot after the other until ctx ends. They wait for the first snapshot
// of the sink: if the destination was replaced meanwhile, it lacks a part of that snapshot.
func (r *Runner) serveOrders(ctx context.Context) {
	for {
		one := r.orders.first()
		if one == nil {
			select {
			case <-r.orders.news:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !r.serveOrder(ctx, one) {
			return
		}
	}
}

// serveOrder attempts to make a re-snapshot. It reports whether there is to be another attempt, or
// another re-snapshot.
func (r *Runner) serveOrder(ctx context.Context, one *order) bool {
	s := &resnapshot{what: one.what, answer: make(chan resnapshotAnswer, 1)}
	if err := r.requests.ask(func(ctx context.Context, in *reader) { in.resnapshot(ctx, s) }, false); err != nil {
		return false // the sink has ended
	}
	select {
	case a := <-s.answer:
		if errors.Is(a.err, journal.ErrClosed) || errors.Is(a.err, context.Canceled) {
			return false // a later process makes it
		}
		if errors.Is(a.err, journal.ErrFirstSnapshot) {
			return orderPaused(ctx)
		}
		r.completeOrder(ctx, one, a)
		return true
	case <-ctx.Done():
		return false
	}
}

// completeOrder forgets an order and answers it. It logs the outcome, because the caller may not
// wait any more.
func (r *Runner) completeOrder(ctx context.Context, one *order, a resnapshotAnswer) {
	logger := r.options.Logger.With("resource", resourceOf(one.what), "run", one.what.Run)
	r.orders.remove(one)
	if err := r.keepOrders(ctx); err != nil {
		logger.Warn("completed re-snapshot not recorded; a restart repeats it", "err", err)
	}
	if a.err != nil {
		logger.Warn("re-snapshot incomplete; run informd resnapshot again", "err", a.err)
	} else {
		logger.Info("re-snapshot complete")
	}
	one.answer <- a
}

// recallOrders begins with the orders that an earlier process has left.
func (r *Runner) recallOrders() {
	kept, err := r.cursor.KeptResnapshots()
	if err != nil {
		r.options.Logger.Warn("pending re-snapshots unreadable; they are dropped", "err", err, "next", "run informd resnapshot again")
	}
	for _, what := range kept {
		r.options.Logger.Info("re-snapshot resumed", "resource", resourceOf(what), "run", what.Run)
		r.orders.all = append(r.orders.all, &order{what: what, answer: make(chan resnapshotAnswer, 1)})
	}
}

// orderPaused waits before the next attempt. It reports whether there is to be one.
func orderPaused(ctx context.Context) bool {
	select {
	case <-time.After(orderPause):
		return true
	case <-ctx.Done():
		return false
	}
}
