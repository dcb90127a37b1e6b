package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

const (
	// durableBatch is the most entries between two commits.
	durableBatch = 256
	// targetPoll is the period in which an informer asks whether the journal has all objects.
	targetPoll = 20 * time.Millisecond
	// closePatience is how long the end of an informer waits for its last commit.
	closePatience = 2 * time.Second
)

// gatedLog is a journal that takes the events of a target when its informer has the states of an
// earlier process: so the store has the state before each event.
type gatedLog struct {
	journal.Journal
	runner *runner
}

// Cluster is the cluster of the journal, which [dynwatch.New] compares with that of its options.
func (l gatedLog) Cluster() string {
	if named, ok := l.Journal.(interface{ Cluster() string }); ok {
		return named.Cluster()
	}
	return l.runner.options.Cluster
}

// Append implements [journal.Log].
func (l gatedLog) Append(ctx context.Context, events []event.Event) error {
	if len(events) > 0 {
		if i := l.runner.informer(events[0].Target); i != nil {
			select {
			case <-i.filled.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return l.Journal.Append(ctx, events)
}

// follower hands the entries of a journal to an informer, and commits what all of its handlers
// have handled.
//
// A new cursor begins with all objects, as events for the handlers. For the cursor of an earlier
// process, the follower asks the journal for the states of all objects. They fill the store
// without a notification, because handlers of that process have had them.
type follower struct {
	informer *sharedInformer
	cursor   journal.Cursor
	run      uint64 // that of the request for states, 0 before
	// newest is the highest resourceVersion of the newest epoch in the store, as far as it is known.
	newest, epoch uint64
	applied       atomic.Uint64 // the last sequence whose notifications are queued
}

// errOtherObjects is the error of a start: the store would have objects that the watch never changes,
// or objects without their content.
var errOtherObjects = errors.New("the journal has its objects of another version, namespace or selector, or metadata instead of whole objects; use another journal")

// noteOf describes the objects that an informer leaves in the journal.
func noteOf(r *dynwatch.Resource) string {
	return strings.Join([]string{r.Version, string(r.Mode), strings.Join(r.Namespaces, ","), r.LabelSelector, r.FieldSelector}, "\n")
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
	note := noteOf(&i.wanted)
	if i.resumed = cursor.Note() != ""; i.resumed && cursor.Note() != note {
		return nil, errors.Join(fmt.Errorf("start informer of %s: %w", i.gvr, errOtherObjects), cursor.Close())
	}
	if i.refilling = i.resumed; i.refilling {
		i.position.list()
	} else {
		i.filled.complete()
	}
	cursor.SetNote(note)
	return &follower{informer: i, cursor: cursor}, nil
}

// read reads the journal until ctx ends or the journal has failed. Then the informer ends, as its
// store is stale from then on.
func (f *follower) read(ctx context.Context) {
	var committing sync.WaitGroup
	defer committing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	committing.Go(func() { f.commitAll(ctx) })
	err := f.resume(ctx)
	for err == nil {
		err = f.next(ctx, ctx)
	}
	if ctx.Err() != nil {
		return
	}
	f.informer.logger.Error("journal unusable; the informer ends (restart the program)", slog.Any("error", err))
	f.informer.reportError(fmt.Errorf("journal: %w", err))
}

// next hands the next entries to the informer. The end of reading only ends the wait for them.
func (f *follower) next(ctx, reading context.Context) error {
	entries, err := f.cursor.Read(reading, durableBatch)
	if err != nil {
		return err
	}
	for n := range entries {
		if err := f.apply(ctx, &entries[n]); err != nil {
			return err
		}
	}
	signal(f.informer.handling)
	return nil
}

// resume fills the store for the cursor of an earlier process, while the target restores its own
// state. It returns when the target has announced all objects to the journal and the store has them.
func (f *follower) resume(ctx context.Context) error {
	i := f.informer
	if i.refilling {
		if err := f.request(ctx); err != nil {
			return err
		}
	}
	for i.refilling && !i.filled.reached() {
		if err := f.next(ctx, ctx); err != nil {
			return err
		}
	}
	if !i.refilling {
		return nil
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	early, ready := context.WithCancel(ctx)
	defer ready()
	waiting.Go(func() { defer ready(); f.waitForTarget(early) })
	for early.Err() == nil {
		if err := f.next(ctx, early); err != nil && early.Err() == nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	i.refilling = false
	i.reach(ctx, f.newest)
	return ctx.Err()
}

// saw moves newest. The resourceVersion of the target is of no use here: it can be that of events
// that were not read yet.
func (f *follower) saw(e *event.Event) {
	if e.Epoch > f.epoch {
		f.epoch, f.newest = e.Epoch, 0
	}
	if e.Epoch == f.epoch {
		f.newest = max(f.newest, e.ResourceVersion)
	}
}

// waitForTarget waits until the target has announced all objects to the journal.
func (f *follower) waitForTarget(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, targetPoll, true, func(context.Context) (bool, error) {
		return f.informer.runner.target(f.informer).Synced, nil
	})
}

// request asks the journal for the states of all objects.
func (f *follower) request(ctx context.Context) error {
	i := f.informer
	m := i.runner.manager.Load()
	if m == nil {
		return nil // the informer ends
	}
	brackets, run, err := m.Brackets(route(i.gvr))
	if err != nil {
		return err
	}
	b := brackets[0] // an informer has one target
	err = f.cursor.Resnapshot(ctx, journal.Resnapshot{Run: run, Begin: []event.Event{b.Begin}, End: []event.Event{b.End}})
	switch {
	case err == nil:
		f.run = run
	case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
		return err
	default:
		// The snapshot that the cursor began with is not complete: its Synced follows.
		i.refilling = false
		i.filled.complete()
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
			f.saw(&e.Event)
		}
	case e.Event.Op == event.Synced:
		i.filled.complete()
	case !e.Event.Op.Control():
		i.fill(ctx, &e.Event)
		f.saw(&e.Event)
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
