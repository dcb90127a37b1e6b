package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

const (
	// durableBatch is the most entries between two looks at the state of the target.
	durableBatch = 256
	// refillPoll is the longest time until an informer notices that it can read its objects.
	refillPoll = 20 * time.Millisecond
	// closePatience is how long the end of an informer waits for its last commit.
	closePatience = 2 * time.Second
)

// follower hands the entries of a journal to an informer, and commits what all of its handlers
// have handled.
//
// A new cursor begins with all objects, as events for the handlers. For the cursor of an earlier
// process, the follower asks the journal for the states of all objects. They fill the store
// without a notification, because handlers of that process have had them.
type follower struct {
	informer *sharedInformer
	cursor   journal.Cursor
	// run is that of the request for states, 0 before.
	run uint64
	// newest is the resourceVersion of the newest event that was not recovered.
	newest  uint64
	applied atomic.Uint64 // the last sequence whose notifications are queued
}

// follow opens the cursor of an informer, if there is a journal. It blocks while the journal reads its
// record.
func (r *runner) follow(i *sharedInformer) (*follower, error) {
	if r.options.Journal == nil {
		return nil, nil //nolint:nilnil // the target calls the informer itself
	}
	cursor, err := r.options.Journal.Open("informer/"+route(i.gvr), journal.FromSnapshot)
	if err != nil {
		return nil, fmt.Errorf("start informer of %s: %w", i.gvr, err)
	}
	i.resumed = cursor.Note() != ""
	if i.refilling = i.resumed; i.refilling {
		i.position.list()
	}
	cursor.SetNote("begun")
	return &follower{informer: i, cursor: cursor}, nil
}

// read reads the journal until ctx ends or the journal has failed.
func (f *follower) read(ctx context.Context) {
	var committing sync.WaitGroup
	defer committing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	committing.Go(func() { f.commitAll(ctx) })
	for {
		entries, err := f.next(ctx)
		for n := range entries {
			if err == nil {
				err = f.apply(ctx, &entries[n])
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.informer.logger.Error("journal unusable; the informer gets no more changes", slog.Any("error", err))
			f.informer.reportError(fmt.Errorf("journal: %w", err))
			return
		}
		signal(f.informer.handling)
	}
}

// next returns the next entries. While the states are missing, it returns none after a moment, to
// ask for them.
func (f *follower) next(ctx context.Context) ([]journal.Entry, error) {
	if !f.informer.refilling {
		return f.cursor.Read(ctx, durableBatch)
	}
	if f.run == 0 {
		if err := f.refill(ctx); err != nil {
			return nil, err
		}
	}
	short, cancel := context.WithTimeout(ctx, refillPoll)
	defer cancel()
	entries, err := f.cursor.Read(short, durableBatch)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, ctx.Err()
	}
	return entries, err
}

// refill asks for the states of all objects, once the target has announced all of them.
func (f *follower) refill(ctx context.Context) error {
	i := f.informer
	m := i.runner.manager.Load()
	if m == nil || !i.runner.target(i).Synced {
		return nil
	}
	brackets, run, err := m.Brackets(route(i.gvr))
	if err != nil || len(brackets) != 1 {
		return err
	}
	b := brackets[0]
	err = f.cursor.Resnapshot(ctx, journal.Resnapshot{Run: run, Begin: []event.Event{b.Begin}, End: []event.Event{b.End}})
	switch {
	case err == nil:
		f.run = run
	case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
		return err
	default:
		i.refilling = false // Synced follows: the snapshot that the cursor began with is not complete: it has all objects
	}
	return nil
}

// apply hands an entry to the informer. An entry counts as applied if all of its notifications are
// queued.
func (f *follower) apply(ctx context.Context, e *journal.Entry) (err error) {
	i := f.informer
	i.after = f.applied.Load()
	mine := i.runner.informer(e.Event.Target) == i
	switch stored := e.Seq == 0 && f.run != 0 && e.Event.Run == f.run; {
	case ctx.Err() != nil || !mine: // it can be one of this informer that has ended
	case !stored:
		err = i.apply(ctx, []event.Event{e.Event})
		if !e.Event.Replay {
			f.newest = max(f.newest, e.Event.ResourceVersion)
		}
	case e.Event.Op == event.Synced:
		i.refilling = false
		i.reach(ctx, max(e.Event.ResourceVersion, f.newest))
	case !e.Event.Op.Control():
		i.fill(&e.Event)
	}
	if err = errors.Join(err, ctx.Err()); err == nil {
		f.applied.Store(max(i.after, e.Seq))
	}
	return err
}

// commitAll commits the entries that all handlers have handled, until ctx ends.
func (f *follower) commitAll(ctx context.Context) {
	for {
		select {
		case <-f.informer.handling:
			f.commit(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// commit commits the entries that all handlers have handled. After an error, the next Read fails as
// well.
func (f *follower) commit(ctx context.Context) {
	if seq := f.informer.handled(f.applied.Load()); seq > 0 {
		_ = f.cursor.Commit(ctx, seq)
	}
}

// close closes the cursor when all goroutines of the informer have ended. It waits some seconds
// at most.
func (f *follower) close() {
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	f.commit(ctx)
	if err := f.cursor.Close(); err != nil {
		f.informer.logger.Warn("cursor not closed; handlers can get the last changes again", slog.Any("error", err))
	}
}

// handled returns the sequence up to which all handlers have handled the journal, at most applied.
func (i *sharedInformer) handled(applied uint64) uint64 {
	i.mu.Lock()
	handlers := i.handlers
	i.mu.Unlock()
	for _, r := range handlers {
		applied = r.queue.handled(applied)
	}
	return applied
}
