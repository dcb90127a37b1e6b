package target

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/emit"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// A re-snapshot announces each object of the target again, on request. Between two frames the loop lists the selection. It repeats
// what the log has as it is listed; what is newer, and the end of what is not listed, is for the watch to
// bring. The synced event follows when the watch has passed the list, or at once if there is nothing to bring.

// resnapshotAttempts is how often in a row the list of a re-snapshot may fail until the request is
// given up.
const resnapshotAttempts = 6

// errInterrupted: the target ended during a snapshot on request.
var errInterrupted = errors.New("the target stopped before the snapshot was complete")

// errUnreadable: with the synced event, a consumer would drop an object that exists.
var errUnreadable = errors.New("the list has objects whose identity cannot be read: see the dead letters of the source")

// ResnapshotResult is the outcome of a request: see dynwatch.ResnapshotResult.
type ResnapshotResult struct {
	Revision uint64
	Objects  int
	Err      error
}

// ResnapshotRequest asks for a re-snapshot with a run.
type ResnapshotRequest struct {
	Run   uint64
	Reply chan<- ResnapshotResult // with a buffer of one
}

// resnapshot is the re-snapshot that is in progress. It continues over the ends of watches.
type resnapshot struct {
	ResnapshotRequest
	// Revision of the list, 0 until it was read to its end, in an epoch. Objects counts what was
	// announced again.
	ResnapshotResult
	epoch uint64
	// equal: the list had nothing that the watch has yet to bring.
	equal    bool
	failures int
	backoff  wait.Backoff
}

// resnapshots is where requests come from; never, while one is in progress or the watch brings a stretch once more.
func (t *Target) resnapshots() <-chan ResnapshotRequest {
	if t.resnapshot != nil || !t.whole() {
		return nil
	}
	return t.Resnapshots
}

// beginResnapshot emits the begin event, and all objects if the API server lists them.
func (t *Target) beginResnapshot(ctx context.Context, r ResnapshotRequest) error {
	t.resnapshot = &resnapshot{ResnapshotRequest: r, backoff: kube.Backoff(5*t.Timing.Backoff, 10*t.Timing.BackoffCap)}
	t.Logger.Info("re-snapshot started", "run", r.Run)
	if err := t.EmitBound(ctx, event.Begin, r.Run, t.Cursor, true); err != nil {
		return err
	}
	return t.listAgain(ctx)
}

// listAgain lists the objects and repeats those that the log has as they are listed. What an attempt
// before has repeated is left out. A failure touches neither the watch nor the state of the target.
func (t *Target) listAgain(ctx context.Context) error {
	s := t.resnapshot
	if s == nil || s.Revision != 0 {
		return nil
	}
	if !t.whole() {
		t.again.Reset(t.Timing.Tick)
		return nil
	}
	pass := t.NewPass(Pass{Horizon: t.Cursor, Repeat: s.Run})
	rv, err := t.list(ctx, pass, &listwatch.Listing{})
	if err == nil && rv < t.Cursor {
		err = fmt.Errorf("%w (list at %d)", errBehind, rv)
	}
	if err == nil && pass.Unreadable {
		err = errUnreadable
	}
	var missing []*index.Entry
	if err == nil { // a consumer drops what no event of the re-snapshot has
		missing = t.missing(pass)
		err = t.confirmGone(ctx, missing, rv)
	}
	if s.Objects += pass.Repeated; pass.Repeated > 0 {
		s.failures = 0
	}
	switch {
	case errors.Is(err, emit.ErrLog), isLoss(err):
		return err
	case err == nil:
		s.Revision, s.epoch = rv, t.Epoch
		s.equal = !pass.Newer && len(missing) == 0
		return nil
	}
	if s.failures++; s.failures >= resnapshotAttempts {
		t.endResnapshot(err)
		return nil
	}
	pause := s.backoff.Step()
	if delay, ok := kube.SuggestedDelay(err); ok {
		pause = max(pause, delay)
	}
	t.Logger.Warn("re-snapshot cannot list the objects; retrying", "err", err, "pause", pause)
	t.again.Reset(pause)
	return nil
}

// concludeResnapshot emits the synced event once the watch has passed the list.
func (t *Target) concludeResnapshot(ctx context.Context) error {
	s := t.resnapshot
	switch {
	case !t.whole():
		return nil
	case s == nil || s.Revision == 0:
		return nil
	case s.epoch != t.Epoch: // the revision of the list does not compare with the cursor
		s.Revision = 0
		return t.listAgain(ctx)
	case !s.equal && t.Cursor < s.Revision:
		return nil
	}
	if err := t.EmitBound(ctx, event.Synced, s.Run, s.Revision, true); err != nil {
		return err
	}
	t.endResnapshot(nil)
	return nil
}

// endResnapshot answers the caller, if a re-snapshot is in progress.
func (t *Target) endResnapshot(err error) {
	s := t.resnapshot
	if s == nil {
		return
	}
	t.resnapshot, s.Err = nil, err
	t.again.Stop()
	if err != nil {
		t.Logger.Warn("re-snapshot incomplete", "run", s.Run, "err", err, "next", "run `informd resnapshot` again")
	} else {
		t.Logger.Info("re-snapshot complete", "run", s.Run, "count", s.Objects)
	}
	s.Reply <- s.ResnapshotResult
}
