package journal

import (
	"context"

	"github.com/informd/informd/pkg/event"
)

// Log is the write side of a journal: the events of every object, and the checkpoint of every
// target. Package dynwatch needs no more of a journal.
//
//   - Order: the log keeps the events of one Append, and of successive calls, in their order.
//     Between targets there is no order.
//   - Blocking: Append blocks while the log is full, and so holds back the watches. Each call
//     returns when its context ends.
//   - Errors: an error other than that of the context is final, because index and log can differ
//     from then on. A log retries by itself whatever a retry can resolve. Only after an error of
//     Restore does the target call again.
//   - Concurrency: all methods may be called concurrently. One target makes one call at a time.
//
// A log without durable state embeds [Stateless], and implements Append only.
type Log interface {
	// Append adds events, and returns when they are as durable as the log makes them. If ctx
	// ends first, it returns the error of ctx, and a leading part of the events may be in the
	// log. It keeps only strings and Unchanged of events. After it has returned, also with an
	// error, Data may be overwritten.
	Append(ctx context.Context, events []event.Event) error
	// Restore reads the state of a target, before its first Append. It calls last with the
	// last event of each object of the target, terminal events included, in no order and
	// without Data; the callee owns the event. It returns the last checkpoint.
	Restore(ctx context.Context, target string, last func(e event.Event)) (Checkpoint, error)
	// Mark replaces the checkpoint of a target. A loss of what the target has appended before takes the Mark with it.
	Mark(ctx context.Context, target string, mark []byte) error
	// Forget has the log forget objects that an edit of the config excludes. Each event names one, as for Last, and
	// its target. Restore and Last do not return them until their next event, and readers see nothing of it. It
	// blocks as Append does.
	Forget(ctx context.Context, objects []event.Event) error
	// Last returns the last event of the object that an event names by cluster, group,
	// resource, namespace and name. Its Data stays valid. It returns false if the log does not
	// keep that event.
	Last(ctx context.Context, of *event.Event) (event.Event, bool, error)
	// Failed is closed when the log has failed for good. The program ends then, and a new
	// process continues. The channel is nil if that does not happen.
	Failed() <-chan struct{}
	// Failure is the reason after Failed was closed, nil before.
	Failure() error
}

// Checkpoint is what a [Log] returns of the last Mark of a target.
type Checkpoint struct {
	// Mark is nil if there is none.
	Mark []byte
	// Void: the log has lost acknowledged events, and may have fewer than the Mark counts on.
	// The Mark may be missing then.
	Void bool
	// Elsewhere counts the last events of objects that are of another target which covers objects of this one, as
	// after an edit of namespaces: the Mark may count on them. Nil: there are none.
	Elsewhere func() int
}

// Stateless has the methods of a [Log] that forgets each event, except Append: nothing to
// restore, no failure. Embed it. After a rollback of etcd, each object is modified: nothing shows that it is not.
type Stateless struct{}

// Restore implements [Log]. There is no state.
func (Stateless) Restore(ctx context.Context, _ string, _ func(event.Event)) (Checkpoint, error) {
	return Checkpoint{}, ctx.Err()
}

// Mark implements [Log]. A later process could not read the checkpoint.
func (Stateless) Mark(ctx context.Context, _ string, _ []byte) error { return ctx.Err() }

// Forget implements [Log]. No event is kept.
func (Stateless) Forget(ctx context.Context, _ []event.Event) error { return ctx.Err() }

// Last implements [Log]. No event is kept.
func (Stateless) Last(ctx context.Context, _ *event.Event) (event.Event, bool, error) {
	return event.Event{}, false, ctx.Err()
}

// Failed implements [Log].
func (Stateless) Failed() <-chan struct{} { return nil }

// Failure implements [Log].
func (Stateless) Failure() error { return nil }
