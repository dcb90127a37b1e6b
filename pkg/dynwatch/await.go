package dynwatch

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

// await is a target's waiting for readers of the log.
type await struct {
	// head is the resource's revision when the watch was opened: up to it frames are
	// history. Live is when the last frame came that was not, zero if none has.
	head uint64
	live time.Time
	// telling: what is emitted is history, also while nothing is made up for.
	telling bool
	// left is how long may be waited until the target is live again, used how long it
	// was since it was live, waited how long in all.
	left, used, waited time.Duration
	// walking is the time for the walk that is under way, nil if none is.
	walking *recovery.Allowance
}

// opens says that a watch is about to be opened, and the resource is at head. After a
// start it is not known how long nobody has watched.
func (a *await) opens(head uint64, patience time.Duration) {
	a.head, a.left = head, patience-a.used
	if !a.live.IsZero() {
		away := time.Since(a.live) - a.used
		a.left = min(patience, away+awaitLeast) - a.used
	}
}

// history says that what is emitted until the end is history.
func (a *await) history() (end func()) {
	was := a.telling
	a.telling = true
	return func() { a.telling = was }
}

// frame is history for a frame of the watch, if its revision makes it that.
func (a *await) frame(rv uint64) (end func()) {
	if a.past(rv) {
		return a.history()
	}
	a.passed()
	return func() {}
}

// past reports whether a frame's revision makes it history.
func (a *await) past(rv uint64) bool { return rv <= a.head }

// passed says that the watch has come past history.
func (a *await) passed() { a.live, a.used = time.Now(), 0 }

// append appends the first of some events to the log, and blocks while the log is full, or while
// a reader of the log is to read history first.
func (t *feed) append(ctx context.Context, events []event.Event) (int, error) {
	t.status.block()
	n, err := t.awaitReaders(ctx, events)
	if err == nil {
		err = t.options.Log.Append(ctx, events[:n])
	}
	t.status.unblock()
	t.status.beatNow()
	if err == nil {
		t.status.appended(events[:n])
	}
	return n, err
}

// awaitReaders waits until readers of the log are far enough for the first of some
// events, if they are history, and returns how many of them may be appended.
func (t *feed) awaitReaders(ctx context.Context, events []event.Event) (int, error) {
	a := &t.await
	making := t.lost != nil && t.lost.Phase == recovery.Reconciling
	if t.options.Await == nil || a.left <= 0 || !a.telling && !making {
		return len(events), nil
	}
	limited, cancel := context.WithTimeout(ctx, a.left)
	defer cancel()
	began := time.Now()
	a.walking.Pause()
	n, err := t.options.Await(limited, events)
	a.walking.Resume()
	waited := time.Since(began)
	a.left, a.used, a.waited = a.left-waited, a.used+waited, a.waited+waited
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		a.left = 0
		// The log has named its readers that are behind.
		t.logger.Debug("recovered history no longer waits for sinks", "waited", a.used.Round(time.Millisecond))
		return len(events), nil
	}
	return n, err
}

// walked says that the walk is over.
func (a *await) walked() {
	a.walking.Stop()
	a.walking = nil
}
