package dynwatch

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// fail shows what an error means for the target and pauses. Its own error is that of
// the log.
func (t *target) fail(ctx context.Context, err error) error {
	t.endOpening()
	if d, _ := kube.Throttled(err); kube.Overloaded(err) {
		t.openings.Pause(min(d, kube.PaceClosed))
	}
	if err = t.fallBack(ctx, err); err == nil {
		return nil
	}
	state := t.judge(err)
	if state != Waiting && !errors.Is(err, listwatch.ErrEnded) {
		t.unwatched = true
	}
	if errors.Is(err, kube.ErrOtherCluster) {
		t.status.looked.Store(false) // nothing is known of the resource in the right cluster
	}
	if t.closedSince.IsZero() {
		t.closedSince = time.Now()
	}
	if state == Waiting {
		// It may come back as another version, or of another kind.
		t.source = nil
	}
	reason := err.Error()
	if why := t.served.Trouble(); why != "" && errors.Is(err, kube.ErrNotServed) {
		reason += "; polled every few seconds, because " + why
	}
	t.setState(state, reason)
	if err := t.tellState(ctx, reason); err != nil {
		return err
	}
	t.rest(ctx, err, state)
	return nil
}

// rest pauses after an error. A target that has no source is woken by a nudge.
func (t *target) rest(ctx context.Context, err error, state State) {
	d := t.pause.Step()
	told := errors.Is(err, kube.ErrNotServed) && !kube.IsUnconfirmed(err) && t.status.gone.Load() && t.served.Watching()
	switch {
	case told:
		d = wait.Jitter(t.timing.Noticed, 0.5)
	case state == Waiting:
		d = min(d, t.timing.WaitingCap)
	}
	var wake <-chan struct{}
	if t.source == nil {
		wake = t.nudge.Wake
		if soon, more := t.looks.Next(); more {
			d = min(d, soon, t.timing.Most)
		}
	}
	if wait, ok := kube.SuggestedDelay(err); ok {
		d, wake = max(d, wait), nil
	}
	t.logger.Debug("target failed; retrying after a pause", "err", err, "pause", d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		t.status.beatNow()
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-wake:
			t.nudged()
			timer.Reset(t.soon())
		case <-time.After(t.timing.Tick):
			if told && !t.served.Watching() {
				return // nobody would tell
			}
		}
	}
}

func (t *feed) resetPause() {
	t.pause = kube.Backoff(t.timing.Backoff, t.timing.BackoffCap)
}

// beginOpening waits for the target's turn, unless it has one. Discovery needs none:
// targets that ask together share the answer.
func (t *target) beginOpening(ctx context.Context) {
	switch {
	case t.restored && t.source == nil:
		t.endOpening()
	case t.opening == nil:
		if t.shown == Live {
			t.status.set(Stale, "waiting to open the watch")
		}
		t.opening = t.openings.Begin(ctx, t.status.beatNow, t.timing.Tick)
	}
}

// endOpening gives the turn back, if there is one.
func (t *target) endOpening() {
	if t.opening != nil {
		t.opening()
		t.opening = nil
	}
}
