package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// follow watches from the position until the watch ends for whatever reason. Without an error another watch follows.
func (t *Target) follow(ctx context.Context) (state, error) {
	t.Status.Set(status.Stale, "opening the watch")
	if err := t.checkRollback(ctx); err != nil {
		return following{}, err
	}
	if err := t.compareEnded(ctx); err != nil {
		return following{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	elsewhere := t.liveness.progress.Stuck > 0 || t.liveness.progress.Misses(t.position.rv) || t.refusals.count > 0
	w, err := t.Discovery.Source.Watch(ctx, t.position.resume(), elsewhere)
	if listwatch.Expired(err) {
		return t.refused(err)
	}
	if err != nil {
		t.liveness.refusedBy(err)
		return following{}, t.endedBy(err)
	}
	defer w.Stop()
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return following{}, err
	}
	t.Status.Watches.Add(1)
	began := time.Now()
	defer func() { t.Status.WatchTime.Add(int64(time.Since(began))) }()
	t.liveness.progress.Opened(t.position.rv, t.liveness.head)
	t.position.opened = t.position.resume()
	if err := t.showWatch(ctx); err != nil {
		return following{}, err
	}
	if err = t.reselect(ctx); err == nil {
		err = t.receive(ctx, w)
	}
	err = t.endedBy(err)
	if err != nil && !errors.Is(err, listwatch.ErrEnded) || t.liveness.progress.Stuck > 0 {
		t.Discovery.unwatched.fail() // there can be more than it has brought
	}
	t.Discovery.unwatched.begin()
	if !isLoss(err) { // else the recovery, or the next watch, answers
		t.Audits.abandon()
	}
	t.Audits.stop()
	switch {
	case listwatch.Expired(err):
		return t.refused(err)
	case errors.Is(err, errMoved), errors.Is(err, errReopen), errors.Is(err, listwatch.ErrStuck):
		return following{}, nil
	}
	return following{}, err
}

// showWatch shows that the watch is open, and whether that of the Namespaces is open, too.
func (t *Target) showWatch(ctx context.Context) error {
	t.Discovery.unwatched.end()
	t.opening.end()
	t.Status.Looked.Store(true)
	t.Status.Gone.Store(false)
	if t.refusals.count == 0 {
		t.Objects.departed = nil
	}
	state, reason := status.Live, ""
	if err := t.Coverage.Trouble(); err != nil {
		state, reason = status.Stale, "namespaceSelector: "+err.Error()
	}
	if t.liveness.progress.Reached(t.position.rv); t.liveness.progress.Stuck > 0 {
		state, reason = status.Stale, t.liveness.progress.Reason(t.position.rv)
	} else if state == status.Live && t.liveness.progress.Unproven(t.position.rv, t.Timing.Tick) {
		state, reason = status.Stale, listwatch.ErrEnded.Error()
	}
	t.shown.set(state, reason)
	return t.logState(ctx, reason)
}

// receive handles what the watch brings until it ends.
func (t *Target) receive(ctx context.Context, w watch.Interface) error {
	tick := time.NewTimer(kube.UntilNext(t.Timing.Tick))
	defer tick.Stop()
	began := time.Now()
	q := quiet{since: began}
	t.position.ahead, t.liveness.bookmarked = 0, false
	if err := t.listAgain(ctx); err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.ResultChan():
			if !ok {
				t.liveness.progress.Ended(t.Timing.Tick)
				return t.Timing.Closed(began)
			}
			if err = t.handleEvent(ctx, e); err == nil {
				q, t.liveness.suspect = quiet{since: time.Now()}, false
			}
		case <-t.Coverage.Changed:
			t.Coverage.Due = true
			err = t.showWatch(ctx)
		case <-t.rollbacks.next:
			err = t.followRollback(ctx)
		case <-t.Marks.timer.C:
			err = t.markNow(ctx)
		case <-tick.C:
			tick.Reset(kube.UntilNext(t.Timing.Tick))
			err = t.onTick(ctx, &q)
		case <-t.Discovery.notice.Wake:
			t.Discovery.noticed()
			t.Discovery.timer.Reset(t.Discovery.soon())
		case <-t.Discovery.timer.C:
			err = t.Discovery.look(ctx)
		case reply := <-t.Audits.Requests:
			t.Audits.waiting = append(t.Audits.waiting, reply)
		case page, more := <-t.Audits.running.next():
			t.Audits.running.compare(page, more, t.Index, t.Coverage.Filter, &t.rejections)
		case request := <-t.resnapshotRequests():
			err = t.beginResnapshot(ctx, request)
		}
		if err == nil {
			err = t.betweenFrames(ctx)
		}
		if err == nil && t.shown.state != status.Live {
			err = t.showWatch(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// onTick does what the clock is for while the watch is open.
func (t *Target) onTick(ctx context.Context, q *quiet) error {
	t.Status.Alive()
	err := t.sitOut(ctx, q)
	if err == nil {
		err = t.watchProgress(ctx)
	}
	if err == nil {
		err = t.listAgain(ctx)
	}
	t.beginAudit(ctx)
	return err
}

// betweenFrames does what must not fall into the middle of a frame.
func (t *Target) betweenFrames(ctx context.Context) error {
	if err := t.reselect(ctx); err != nil {
		return err
	}
	return t.concludeAudit(ctx)
}

// handleEvent takes the frames of one event of the watch.
func (t *Target) handleEvent(ctx context.Context, e watch.Event) error {
	if e.Type == watch.Error {
		err := fmt.Errorf("watch: %w", apierrors.FromObject(e.Object))
		t.liveness.refusedBy(err)
		return err
	}
	w, ok := e.Object.(*frame.Watched)
	if !ok {
		return fmt.Errorf("watch: unexpected %T", e.Object)
	}
	for first := true; w != nil; first = false {
		if !first {
			if err := t.betweenFrames(ctx); err != nil {
				return err
			}
		}
		if err := t.handle(ctx, w); err != nil {
			return err
		}
		w = w.Done()
	}
	return t.gathered(ctx)
}

// refusedBy notes that the server refuses or ends a watch with an error. If it is not overloaded, it may do so for
// ever.
func (lv *liveness) refusedBy(err error) {
	if !listwatch.Expired(err) && !kube.Overloaded(err) {
		lv.progress.Ended(lv.timing.Tick)
	}
}

// handle takes one frame.
func (t *Target) handle(ctx context.Context, w *frame.Watched) error {
	done, err := t.gather(ctx, w)
	if done || err != nil {
		return err
	}
	t.liveness.progressBy(w, t.position.rv)
	t.pause.reset()
	t.refusals = refusals{} // another API server may still have had the history
	rv, namespace, name := w.ResourceVersion, w.Namespace, w.Name
	if w.Err != nil {
		rv, namespace, name = w.Err.ResourceVersion, w.Err.Namespace, w.Err.Name
	}
	filtered, err := t.filtersFrame(ctx, w)
	if err != nil {
		return err
	}
	switch {
	case filtered: // but the cursor moves on
	case w.Err != nil:
		if err := t.rejectFrame(ctx, w.Kind, w.Err); err != nil {
			return err
		}
	case w.Kind != watch.Bookmark:
		if err := t.Apply(ctx, w.Kind, &w.Object); err != nil {
			return err
		}
	}
	t.liveness.bookmarked = t.liveness.bookmarked || w.Err == nil && w.Kind == watch.Bookmark
	t.position.moveTo(rv)
	if w.Kind == watch.Deleted {
		t.Audits.running.end(namespace, name, rv)
	}
	if w.Kind == watch.Deleted && rv == t.position.rv {
		key := "" // of no name: the watch may have to bring again what was filtered
		if !filtered {
			key = index.Key(namespace, name)
		}
		t.position.ended[key] = max(t.position.ended[key], rv)
	}
	return nil
}

// progressBy shows progress by whatever the watch brings, but for a bookmark at revision rv or before.
func (lv *liveness) progressBy(w *frame.Watched, rv uint64) {
	switch bookmark := w.Err == nil && w.Kind == watch.Bookmark; {
	case !bookmark:
		lv.progress.Event()
		lv.status.Progressed()
	case w.ResourceVersion > rv:
		lv.status.Progressed()
	default:
		lv.progress.Bookmark(rv, lv.timing.Lag)
	}
}
