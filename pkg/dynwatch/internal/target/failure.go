package target

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

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
	d := t.pause.backoff.Step()
	wakes := errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err) && t.Status.Gone.Load() && t.Served.Watching()
	switch {
	case wakes:
		d = wait.Jitter(t.Timing.Noticed, 0.5)
	case state == status.Waiting:
		d = min(d, t.Timing.WaitingCap)
	case errors.Is(err, listwatch.ErrEnded) && t.liveness.progress.Head > t.position.rv && t.liveness.progress.Left(t.Timing.Reach) > 0:
		d = min(d, max(t.liveness.progress.Left(t.Timing.Reach), t.Timing.Tick)) // then a list is compared
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
