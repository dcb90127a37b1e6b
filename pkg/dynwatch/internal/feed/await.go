package feed

import (
	"context"
	"errors"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// History comes as fast as it is read, not as the cluster made it, and the log keeps
// so many events of an object. So what a target makes up for, and what a watch brings
// of the time before it was opened, waits for the readers of the log. What happens now
// does not: a reader that is slow then is its own affair. Nor does a reader that is
// always slow hold up the others for much longer than the break itself.

// awaitLeast is how much longer than the time that the history is of it may wait.
const awaitLeast = time.Second

// longAppend is how long an append may take without a backlog of the watch to be expected.
const longAppend = time.Second

// await is a target's waiting for readers of the log.
type await struct {
	// Head is the resource's revision when the watch was opened: up to it frames are
	// history. Live is when the last frame came that was not, zero if none has.
	Head uint64
	live time.Time
	// telling: what is emitted is history, also while nothing is made up for.
	telling bool
	// left is how long may be waited until the target is live again, used how long it
	// was since it was live, waited how long in all.
	left, used, Waited time.Duration
	// Stalled is when an append ended that took long: the watch has perhaps brought
	// more by then than was read of it.
	Stalled time.Time
	// Walking is the time for the walk that is under way, nil if none is.
	Walking *recovery.Allowance
}

// Opens says that a watch is about to be opened, and the resource is at head. After a
// start it is not known how long nobody has watched.
func (a *await) Opens(head uint64, patience time.Duration) {
	a.Head, a.left = head, patience-a.used
	if !a.live.IsZero() {
		away := time.Since(a.live) - a.used
		a.left = min(patience, away+awaitLeast) - a.used
	}
}

// History says that what is emitted until the end is history.
func (a *await) History() (end func()) {
	was := a.telling
	a.telling = true
	return func() { a.telling = was }
}

// Frame is history for a frame of the watch, if its revision makes it that.
func (a *await) Frame(rv uint64) (end func()) {
	if a.Past(rv) {
		return a.History()
	}
	a.Passed()
	return func() {}
}

// Past reports whether a frame's revision makes it history.
func (a *await) Past(rv uint64) bool { return rv <= a.Head }

// Passed says that the watch has come past history.
func (a *await) Passed() { a.live, a.used = time.Now(), 0 }

// append appends the first of some events to the log, and blocks while the log is full, or while
// a reader of the log is to read history first.
func (t *Feed) append(ctx context.Context, events []event.Event) (int, error) {
	t.Status.Block()
	n, err := t.awaitReaders(ctx, events)
	if err == nil {
		err = t.Log.Append(ctx, events[:n])
	}
	if t.Status.Unblock() > longAppend {
		t.Await.Stalled = time.Now()
	}
	t.Status.Alive()
	if err == nil {
		t.Status.Appended(events[:n])
	}
	return n, err
}

// awaitReaders waits until readers of the log are far enough for the first of some
// events, if they are history, and returns how many of them may be appended.
func (t *Feed) awaitReaders(ctx context.Context, events []event.Event) (int, error) {
	a := &t.Await
	making := t.Lost != nil && t.Lost.Phase == recovery.Reconciling
	if a.left <= 0 || !a.telling && !making {
		return len(events), nil
	}
	limited, cancel := context.WithTimeout(ctx, a.left)
	defer cancel()
	began := time.Now()
	a.Walking.Pause()
	n, err := t.Log.Await(limited, events)
	a.Walking.Resume()
	waited := time.Since(began)
	a.left, a.used, a.Waited = a.left-waited, a.used+waited, a.Waited+waited
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		a.left = 0
		// The log has named its readers that are behind.
		t.Logger.Debug("recovered history no longer waits for sinks", "waited", a.used.Round(time.Millisecond))
		return len(events), nil
	}
	return n, err
}

// Walked says that the walk is over.
func (a *await) Walked() {
	a.Walking.Stop()
	a.Walking = nil
}
