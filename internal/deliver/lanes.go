package deliver

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// lanes delivers through several concurrent writes. The key of an event decides
// its lane, which keeps the order of each object.
type lanes struct {
	in     *reader
	out    *writer
	window *laneWindow
	all    []*lane
	seed   maphash.Seed
}

// runLanes delivers until ctx ends, the journal is closed or draining is through.
func runLanes(ctx context.Context, n int, in *reader, out *writer) error {
	l := &lanes{in: in, out: out, window: newWindow(), seed: maphash.MakeSeed()}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range n {
		one := &lane{news: make(chan struct{}, 1)}
		l.all = append(l.all, one)
		wg.Go(func() { l.work(ctx, one) })
	}
	err := l.dispatch(ctx)
	cancel()
	wg.Wait()
	return err
}

// dispatch reads the journal and hands every event to its lane.
func (l *lanes) dispatch(ctx context.Context) error {
	for {
		entries, err := l.next(ctx)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return l.window.Empty(ctx)
		}
		var skipped uint64
		for i := range entries {
			e := &entries[i]
			if l.in.admits(e) {
				if err := l.hand(ctx, e); err != nil {
					return err
				}
			} else if l.window.Skip(e.Seq) {
				skipped = e.Seq
			}
		}
		if skipped > 0 {
			l.in.commit(skipped)
		}
	}
}

// next reads the next entries. If something is to be done with the cursor first, or
// the sink is replaced, it waits until nothing is under way.
func (l *lanes) next(ctx context.Context) ([]journal.Entry, error) {
	for {
		entries, err := l.in.next(ctx)
		settle := errors.Is(err, errSettle)
		if !settle && !errors.Is(err, errReplaced) {
			return entries, err
		}
		if err := l.window.Empty(ctx); err != nil {
			return nil, err
		}
		if !settle {
			return nil, err
		}
		l.in.settle(ctx)
	}
}

// hand gives an event to its lane, when there is room.
func (l *lanes) hand(ctx context.Context, e *journal.Entry) error {
	if e.Event.Op.Control() {
		return l.barrier(ctx, e.Event, e.Seq)
	}
	item, err := l.window.Add(ctx, e)
	if err != nil {
		return err
	}
	l.lane(&e.Event).put(item)
	return nil
}

// barrier delivers a control record by itself, when everything before it is done.
func (l *lanes) barrier(ctx context.Context, e event.Event, seq uint64) error {
	if err := l.window.Empty(ctx); err != nil {
		return err
	}
	return l.out.deliver(ctx, []event.Event{e}, nil, func(int) { l.in.commit(seq) })
}

func (l *lanes) lane(e *event.Event) *lane {
	return l.all[maphash.String(l.seed, e.Key())%uint64(len(l.all))]
}

// work delivers what comes into one lane until ctx ends.
func (l *lanes) work(ctx context.Context, one *lane) {
	var events []event.Event
	for {
		items := one.take(ctx)
		if len(items) == 0 {
			return
		}
		for _, item := range items {
			events = append(events, item.Event)
		}
		err := l.out.deliver(ctx, events, nil, func(n int) {
			l.window.Finish(items[:n], l.in.commit)
			items = items[n:]
		})
		if err != nil {
			return // ctx has ended, which the dispatcher sees, too
		}
		clear(events)
		events = events[:0]
	}
}

// lane is a queue of events. The window bounds it.
type lane struct {
	news chan struct{} // capacity 1: something was put in

	mu    sync.Mutex
	queue []*windowItem
}

func (l *lane) put(item *windowItem) {
	l.mu.Lock()
	l.queue = append(l.queue, item)
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// take removes what one batch can hold, at least one item, and waits for it. It
// returns none when ctx has ended.
func (l *lane) take(ctx context.Context) []*windowItem {
	for ctx.Err() == nil {
		l.mu.Lock()
		n := min(len(l.queue), maxBatchEvents)
		items := slices.Clone(l.queue[:n])
		l.queue = slices.Delete(l.queue, 0, n)
		l.mu.Unlock()
		if n > 0 {
			return items
		}
		select {
		case <-l.news:
		case <-ctx.Done():
		}
	}
	return nil
}
