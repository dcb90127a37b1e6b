package deliver

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
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
	all    []lane
	seed   maphash.Seed
}

// runLanes delivers until ctx ends, the journal is closed or draining is through.
func runLanes(ctx context.Context, n int, in *reader, out *writer) error {
	l := &lanes{in: in, out: out, window: newWindow(), seed: maphash.MakeSeed()}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range n {
		one := make(lane, maxEvents)
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
		entries, err := l.in.next(ctx)
		if err != nil && !errors.Is(err, errReplaced) {
			return err
		}
		if len(entries) == 0 {
			return cmp.Or(l.window.Empty(ctx), err)
		}
		if err := l.handAll(ctx, entries); err != nil {
			return err
		}
		if l.in.ended {
			if err := l.window.Empty(ctx); err != nil {
				return err
			}
			l.in.conclude()
		}
	}
}

// handAll gives events to their lanes, but for those that the sink does not get.
func (l *lanes) handAll(ctx context.Context, entries []journal.Entry) error {
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
	return nil
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
	l.all[maphash.String(l.seed, e.Event.Key())%uint64(len(l.all))] <- item
	return nil
}

// barrier delivers a control record by itself, when everything before it is done.
func (l *lanes) barrier(ctx context.Context, e event.Event, seq uint64) error {
	if err := l.window.Empty(ctx); err != nil {
		return err
	}
	return l.out.deliver(ctx, []event.Event{e}, nil, func(int) { l.in.commit(seq) })
}

// work delivers what comes into one lane until ctx ends.
func (l *lanes) work(ctx context.Context, one lane) {
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

// lane is a queue of events, with room for all that the window holds.
type lane chan *windowItem

// take removes what one batch can hold, at least one item, and waits for it. It
// returns none when ctx has ended.
func (l lane) take(ctx context.Context) (items []*windowItem) {
	select {
	case item := <-l:
		items = append(items, item)
	case <-ctx.Done():
		return nil
	}
	for len(items) < maxBatchEvents {
		select {
		case item := <-l:
			items = append(items, item)
		default:
			return items
		}
	}
	return items
}
