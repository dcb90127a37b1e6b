package target

import (
	"context"
	"errors"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/catalog"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// fail shows what an error means for the target and pauses. Its own error is that of
// the log.
func (t *Target) fail(ctx context.Context, err error) error {
	t.opening.end()
	t.Audits.answer(AuditResult{Err: ErrAbandoned})
	if !errors.Is(err, kube.ErrNotServed) {
		t.Status.Failures.Add(1)
	}
	state := StateAfter(err, t.Status.Synced.Load())
	switch {
	case state == status.Waiting:
		t.Discovery.unwatched.deny()
	case !errors.Is(err, listwatch.ErrEnded):
		t.Discovery.unwatched.fail()
	}
	if errors.Is(err, kube.ErrOtherCluster) {
		t.Status.Looked.Store(false) // nothing is known of the resource in the right cluster
	}
	if state == status.Waiting {
		// It may come back as another version, or of another kind.
		t.Discovery.Source = nil
	}
	reason := err.Error()
	if why := t.Served.Trouble(); why != "" && errors.Is(err, kube.ErrNotServed) {
		reason += "; polled every few seconds, because " + why
	}
	t.shown.set(state, reason)
	t.Status.SetError(err)
	if state == status.Forbidden {
		t.Discovery.reviewAccess(ctx)
	}
	if err := t.logState(ctx, reason); err != nil {
		return err
	}
	t.rest(ctx, err, state)
	return nil
}

// rest pauses after an error. A target that has no source is woken by a nudge.
func (t *Target) rest(ctx context.Context, err error, state status.State) {
	d, p := t.pause.backoff.Step(), &t.liveness.progress
	wakes := errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err) && t.Status.Gone.Load() && t.Served.Watching()
	switch {
	case wakes:
		d = wait.Jitter(t.Timing.Noticed, 0.5)
	case state == status.Waiting:
		d = min(d, t.Timing.WaitingCap)
	case errors.Is(err, listwatch.ErrEnded) && p.Head > t.position.rv && p.Left(t.Timing.Reach) > 0:
		d = min(d, max(p.Left(t.Timing.Reach), t.Timing.Tick)) // then a list is compared
	}
	var wake <-chan struct{}
	if t.Discovery.Source == nil {
		wake = t.Discovery.notice.Wake
		if soon, more := t.Discovery.looks.Next(); more {
			d = min(d, soon, t.Timing.Most)
		}
	}
	if wait, ok := kube.SuggestedDelay(err); ok {
		d, wake = max(d, wait), nil
	}
	t.Logger.Debug("target failed; retrying after a pause", "err", err, "pause", d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		t.Status.Alive()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-wake:
			t.Discovery.noticed()
			timer.Reset(t.Discovery.soon())
		case <-time.After(t.Timing.Tick):
			if wakes && !t.Served.Watching() {
				return // no notice would arrive
			}
		}
	}
}

// beginOpening waits for the target's turn, unless it has one. Discovery needs none:
// targets that ask together share the answer.
func (t *Target) beginOpening(ctx context.Context) {
	switch {
	case t.loop.restored() && t.Discovery.Source == nil:
		t.opening.end()
	case t.opening == nil:
		if t.shown.state == status.Live {
			t.Status.Set(status.Stale, "waiting to open the watch")
		}
		t.opening = t.Openings.Begin(ctx, t.Status.Alive, t.Timing.Tick)
	}
}

// opening ends a target's turn to open its watch; nil if it has none.
type opening func()

// end gives the turn back, if there is one.
func (o *opening) end() {
	if *o != nil {
		(*o)()
		*o = nil
	}
}

// StateAfter is the state of a target after an error. Synced: its first list was complete. No
// error counts as an empty list.
func StateAfter(err error, synced bool) status.State {
	switch {
	case errors.Is(err, kube.ErrNotServed), apierrors.IsNotFound(err):
		return status.Waiting
	case apierrors.IsForbidden(err):
		return status.Forbidden
	case listwatch.Expired(err):
		return status.Syncing // a list took longer than etcd keeps its revision
	case errors.Is(err, catalog.ErrUnusable), errors.Is(err, kube.ErrOtherCluster), apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return status.Degraded
	case synced:
		return status.Stale
	default:
		return status.Degraded
	}
}

// shown is the state of a target that its status shows.
type shown struct {
	status *status.Status
	logger *slog.Logger
	// state was logged last, and since when; inLog is the last one that the log has.
	state status.State
	since time.Time
	inLog status.State
}

// set shows a state.
func (s *shown) set(state status.State, reason string) {
	s.status.Set(state, reason)
	if s.state == state {
		return
	}
	s.state, s.since = state, time.Now()
	level := slog.LevelInfo
	if state != status.Live && state != status.Syncing && state != status.Stopped {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("state", string(state))}
	if reason != "" {
		attrs = append(attrs, slog.String("reason", display.Reason(reason)))
	}
	if state == status.Forbidden || state == status.Degraded {
		attrs = append(attrs, slog.String("runbook", display.AlertRunbook("InformdTargetNotWatched")))
	}
	s.logger.LogAttrs(context.Background(), level, "target state changed", attrs...)
}

// logState appends the state that is shown to the log if it differs from the last
// one there. What lies between two states is not logged: after a restart that changes
// nothing the target is live as it was.
func (t *Target) logState(ctx context.Context, reason string) error {
	switch {
	case !t.loop.restored(), t.shown.inLog == t.shown.state, t.shown.state == status.Syncing:
		return nil
	case t.shown.state == status.Stale && time.Since(t.shown.since) < t.Timing.StaleTold:
		return nil
	}
	if err := t.Writer.EmitState(ctx, string(t.shown.state), reason, t.position.rv); err != nil {
		return err
	}
	t.shown.inLog = t.shown.state
	return t.Writer.Flush(ctx)
}
