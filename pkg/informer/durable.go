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
	// completeNote ends the note of a cursor when the journal has all objects.
	completeNote = "\ncomplete"
)

// follower hands the entries of a journal to an informer, and commits what all of its handlers
// have handled.
//
// A new cursor begins with all objects, as events for the handlers. For the cursor of an earlier
// process, the follower asks the journal for the states of all objects. They fill the store
// without a notification, because handlers of that process have had them.
type follower struct {
	informer *sharedInformer
	cursor   *journal.Cursor
	target   string // its name in events
	note     string // of the cursor, see noteOf
	// complete says that the journal has all objects, as an earlier process has noted. Noted: so has
	// this one.
	complete, noted bool
	// run is that of the request for states, 0 without one. If filled, all of them have come.
	run    uint64
	filled bool
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

// follow opens the cursor of an informer, if there is a journal: nil without one. It blocks while the
// journal reads its record.
func (r *runner) follow(i *sharedInformer) (*follower, error) {
	log := r.options.Journal
	if log == nil {
		return nil, nil //nolint:nilnil // the target calls the informer itself
	}
	if r.mode == dynwatch.Full && route(i.gvr) == "core/secrets" {
		return nil, errors.New("start informer of secrets: a journal would store their values; use ForMetadata, or a factory without Journal")
	}
	cursor, err := log.Open("informer/"+route(i.gvr), journal.FromSnapshot)
	if err != nil {
		return nil, fmt.Errorf("start informer of %s: %w", i.gvr, err)
	}
	f := &follower{informer: i, cursor: cursor, target: route(i.gvr), note: noteOf(&i.wanted)}
	if len(i.wanted.Namespaces) > 0 {
		f.target += "@" + i.wanted.Namespaces[0]
	}
	before, complete := strings.CutSuffix(cursor.Note(), completeNote)
	switch i.resumed = before != ""; {
	case !i.resumed:
		cursor.SetNote(f.note)
	case before != f.note:
		return nil, errors.Join(fmt.Errorf("start informer of %s: %w", i.gvr, errOtherObjects), cursor.Close())
	default:
		i.refilling = true
		i.position.list()
		f.complete = complete
	}
	return f, nil
}

// fill fills the store for the cursor of an earlier process. If the journal has all objects, the
// informer is synced then: the target reports later changes. It reports false if ctx ends or the
// journal has failed.
func (f *follower) fill(ctx context.Context) bool {
	if f == nil || !f.informer.refilling {
		return true
	}
	err := f.checkNote()
	if err == nil {
		err = f.refill(ctx)
	}
	if err != nil && ctx.Err() == nil {
		f.fail(err)
	}
	return err == nil
}

// checkNote withdraws the note of the earlier process if the journal has lost events since. The
// target then announces all objects again.
func (f *follower) checkNote() error {
	if !f.complete {
		return nil
	}
	intact, err := f.informer.runner.options.Journal.Checkpointed(f.target)
	if err == nil && !intact {
		f.complete = false
		f.cursor.SetNote(f.note)
	}
	return err
}

func (f *follower) refill(ctx context.Context) error {
	i, begin := f.informer, event.Event{
		Time: time.Now(), Cluster: f.informer.options.Cluster, Target: f.target, Replay: true,
		Group: f.informer.gvr.Group, Version: f.informer.gvr.Version, Resource: f.informer.gvr.Resource,
	}
	f.run, f.filled = uint64(begin.Time.UnixMilli()), false
	end := begin
	begin.SetBound(event.Begin, f.run, 0)
	end.SetBound(event.Synced, f.run, 0)
	err := f.cursor.Rewindable() // not during its first snapshot
	if pending := f.cursor.Requests(); len(pending) > 0 {
		f.run = pending[0].Run // an earlier process has not read all of it
	} else if err == nil {
		err = f.cursor.Request(ctx, journal.Resnapshot{Run: f.run, Begin: []event.Event{begin}, End: []event.Event{end}})
	}
	if err != nil {
		f.run = 0 // a snapshot of the cursor can have the same run
	}
	switch {
	case err == nil:
	case ctx.Err() != nil || errors.Is(err, journal.ErrClosed):
		return err
	case !f.complete:
		return nil // the cursor has its own snapshot, which can lack objects as well
	default:
		// That snapshot begins again, as of now: its Synced follows. An earlier commit would end it.
		i.refilling = false
		f.applied.Store(0)
		return f.cursor.Reset(ctx)
	}
	for !f.filled {
		if err := f.next(ctx, ctx); err != nil {
			return err
		}
	}
	if _, err := f.cursor.Complete(f.run); err != nil {
		return err
	}
	if f.complete {
		i.refilling = false
		i.position.enter(f.epoch)
		i.reach(ctx, f.newest)
		f.noteComplete()
	}
	return ctx.Err()
}

// noteComplete notes for a later process that the journal has all objects.
func (f *follower) noteComplete() {
	if !f.noted && f.informer.HasSynced() {
		f.noted = true
		f.cursor.SetNote(f.note + completeNote)
	}
}

// read reads the journal until ctx ends or the journal has failed. Then the informer ends, as its
// store is stale from then on.
func (f *follower) read(ctx context.Context) {
	var committing sync.WaitGroup
	defer committing.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := f.readIncomplete(ctx) // without commits, which could end the snapshot that it begins again
	committing.Go(func() { f.commitAll(ctx) })
	for err == nil {
		err = f.next(ctx, ctx)
	}
	if ctx.Err() == nil {
		f.fail(err)
	}
}

// readIncomplete reads a journal that lacks objects until the target has announced all of them.
func (f *follower) readIncomplete(ctx context.Context) error {
	i := f.informer
	if !i.refilling {
		return nil
	}
	early, ready := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
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
	f.complete = true
	return f.refill(ctx) // the target is ahead: this ends behind all objects that it has announced
}

// fail reports that the journal has failed.
func (f *follower) fail(err error) {
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

// waitForTarget waits until the target has announced all objects to the journal: the earlier process
// has ended in its first list, or the journal is damaged.
func (f *follower) waitForTarget(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, targetPoll, true, func(context.Context) (bool, error) {
		return f.informer.runner.target(f.informer).Synced, nil
	})
}

// apply hands an entry to the informer. An entry counts as applied if all of its notifications are
// queued.
func (f *follower) apply(ctx context.Context, e *journal.Entry) (err error) {
	i := f.informer
	i.after = f.applied.Load()
	switch stored := e.Seq == 0 && f.run != 0 && e.Event.Run == f.run; {
	case e.Event.Target != f.target:
	case !stored:
		err = i.apply(ctx, []event.Event{e.Event})
		if !e.Event.Replay {
			f.saw(&e.Event)
		}
	case e.Event.Op == event.Synced:
		f.filled = true
	case !e.Event.Op.Control():
		i.fill(ctx, &e.Event)
		f.saw(&e.Event)
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	f.noteComplete() // before a commit of the event that says so
	f.applied.Store(max(i.after, e.Seq))
	return nil
}

// commitAll commits the entries that all handlers have handled, until ctx ends.
func (f *follower) commitAll(ctx context.Context) {
	for {
		select {
		case <-f.informer.handling:
			f.commit()
		case <-ctx.Done():
			return
		}
	}
}

// commit commits the entries that all handlers have handled. After an error, the next Read fails as
// well.
func (f *follower) commit() {
	if seq := f.informer.handled(f.applied.Load()); seq > 0 {
		_ = f.cursor.Commit(seq)
	}
}

// close closes the cursor when all goroutines of the informer have ended.
func (f *follower) close() {
	if f == nil {
		return
	}
	f.commit()
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
