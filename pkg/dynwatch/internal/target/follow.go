package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/pkg/dynwatch/internal/audit"
	"github.com/informd/informd/pkg/dynwatch/internal/feed"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/namespaces"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/dynwatch/internal/resolve"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
	"github.com/informd/informd/pkg/dynwatch/internal/sweep"
)

// follow watches from the cursor until the watch ends for whatever reason.
func (t *Target) follow(ctx context.Context) error {
	t.Status.Set(status.Stale, "opening the watch")
	rolledBack, err := t.CheckRollback(ctx)
	if err != nil || rolledBack {
		return err
	}
	if err := t.compareEnded(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	elsewhere := t.Progress.Stuck > 0 || t.Progress.Misses(t.Cursor) || t.Lost != nil && t.Lost.Phase == recovery.Asking
	w, err := t.Source.Watch(ctx, t.Resume(), elsewhere)
	if listwatch.Expired(err) {
		return t.Losses.Expire(err)
	}
	if err != nil {
		return t.compareIfLasting(ctx, err)
	}
	defer w.Stop()
	if err := t.Clients.Identity.Check(ctx); err != nil {
		return err
	}
	t.Status.Watches.Add(1)
	began := time.Now()
	defer func() { t.Status.WatchTime.Add(int64(time.Since(began))) }()
	t.Progress.Opened(t.Cursor, t.Head)
	t.Opened = t.Resume()
	if err := t.showWatch(ctx); err != nil {
		return err
	}
	if err = t.namespaces.Reselect(ctx); err == nil {
		err = t.receive(ctx, w)
	}
	if t.Progress.EndedWithout(t.Cursor) {
		t.Status.Stuck.Add(1)
		t.fallBehind()
		err = audit.ErrDiverged
	}
	if err != nil && !errors.Is(err, listwatch.ErrEnded) || t.Progress.Stuck > 0 {
		t.Resolver.Unwatched.Fail() // there can be more than it has brought
	}
	t.Resolver.Unwatched.Begin()
	t.Audits.Abandon()
	t.again.Stop()
	switch err = t.compareIfLasting(ctx, err); {
	case listwatch.Expired(err):
		return t.Losses.Expire(err)
	case errors.Is(err, audit.ErrDiverged), errors.Is(err, resolve.ErrMoved), errors.Is(err, namespaces.ErrReopen),
		errors.Is(err, sweep.ErrRolledBack), errors.Is(err, listwatch.ErrStuck):
		return nil
	}
	return err
}

// showWatch shows that the watch is open, whether deletions that a list found still
// wait for it to pass, and whether that of the Namespaces is open, too.
func (t *Target) showWatch(ctx context.Context) error {
	t.Resolver.Unwatched.End()
	t.endOpening()
	t.Status.Looked.Store(true)
	t.Status.Gone.Store(false)
	if t.Lost == nil {
		t.Departed = nil
	}
	if t.Lost != nil && t.Lost.Phase == recovery.Settling {
		t.SetState(status.Syncing, fmt.Sprintf("the watch has not reached revision %d of a list yet", t.Lost.Settled))
		return nil
	}
	state, reason := status.Live, ""
	if err := t.Coverage.Trouble(); err != nil {
		state, reason = status.Stale, "namespaceSelector: "+err.Error()
	}
	if t.Progress.Reached(t.Cursor); t.Progress.Stuck > 0 {
		state, reason = status.Stale, t.Progress.Reason(t.Cursor)
	} else if state == status.Live && t.Progress.Unproven(t.Cursor, t.Timing.Tick) {
		state, reason = status.Stale, listwatch.ErrEnded.Error()
	}
	t.SetState(state, reason)
	return t.tellState(ctx, reason)
}

// receive handles what the watch brings until it ends.
func (t *Target) receive(ctx context.Context, w watch.Interface) error {
	tick := time.NewTimer(kube.UntilNext(t.Timing.Tick))
	defer tick.Stop()
	began := time.Now()
	q := quiet{since: began}
	t.Ahead, t.bookmarked = 0, false
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
				t.Progress.Ended(t.Timing.Tick)
				return t.Timing.Closed(began)
			}
			if err = t.handleEvent(ctx, e); err == nil {
				q, t.suspect = quiet{since: time.Now()}, false
			}
		case <-t.Coverage.Changed:
			t.Coverage.Due = true
			err = t.showWatch(ctx)
		case <-t.Rollback:
			err = t.FollowRollback(ctx)
		case <-t.Marks.C:
			err = t.MarkNow(ctx)
		case <-tick.C:
			tick.Reset(kube.UntilNext(t.Timing.Tick))
			err = t.onTick(ctx, &q)
		case <-t.Resolver.Notice.Wake:
			t.Resolver.Noticed()
			t.Resolver.Looks.Timer.Reset(t.Resolver.Soon())
		case <-t.Resolver.Looks.Timer.C:
			err = t.Resolver.Look(ctx)
		case reply := <-t.Audits.Requests:
			t.Audits.Request(ctx, reply)
		case page, more := <-t.Audits.Running.Pages():
			t.Audits.Compare(page, more)
		case <-t.again.C:
			err = t.listAgain(ctx)
		case request := <-t.resnapshots():
			err = t.beginResnapshot(ctx, request)
		case answer := <-t.questions():
			answer(t.Feed)
		}
		if err == nil {
			err = t.betweenFrames(ctx)
		}
		if err == nil && t.Shown != status.Live {
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
	t.Audits.BeginDue(ctx)
	return err
}

// betweenFrames does what must not fall into the middle of a frame.
func (t *Target) betweenFrames(ctx context.Context) error {
	if err := t.namespaces.Reselect(ctx); err != nil {
		return err
	}
	return t.concludeAll(ctx)
}

// handleEvent takes the frames of one event of the watch.
func (t *Target) handleEvent(ctx context.Context, e watch.Event) error {
	if e.Type == watch.Error {
		return t.Source.NoteWatch(ctx, t.Resume(), fmt.Errorf("watch: %w", apierrors.FromObject(e.Object)))
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

// handle takes one frame.
func (t *Target) handle(ctx context.Context, w *frame.Watched) error {
	done, err := t.gather(ctx, w)
	if done || err != nil {
		return err
	}
	t.progressBy(w)
	t.ResetPause()
	if t.Lost != nil && t.Lost.Phase == recovery.Asking {
		t.Lost = nil // the other API server still had the history
	}
	if t.Lost == nil {
		t.Losses.InOrder()
	}
	rv, namespace, name := w.ResourceVersion, w.Namespace, w.Name
	if w.Err != nil {
		rv, namespace, name = w.Err.ResourceVersion, w.Err.Namespace, w.Err.Name
	}
	filtered, err := t.namespaces.Filters(ctx, w)
	if err != nil {
		return err
	}
	switch {
	case filtered: // but the cursor moves on
	case w.Err != nil:
		if err := t.RejectFrame(ctx, w.Kind, w.Err); err != nil {
			return err
		}
	case w.Kind != watch.Bookmark:
		if err := t.Apply(ctx, w.Kind, &w.Object); err != nil {
			return err
		}
	}
	t.bookmarked = t.bookmarked || w.Err == nil && w.Kind == watch.Bookmark
	t.MoveTo(rv)
	if w.Kind == watch.Deleted {
		t.Audits.Running.End(namespace, name, rv)
	}
	if w.Kind == watch.Deleted && rv == t.Cursor {
		key := "" // of no name: the watch may have to bring again what was filtered
		if !filtered {
			key = index.Key(namespace, name)
		}
		t.Ended[key] = max(t.Ended[key], rv)
	}
	if err := t.Decide(ctx); err != nil {
		return err
	}
	return t.Losses.Settle(ctx)
}

// progressBy shows progress, which a bookmark at the same revision is not.
func (t *Target) progressBy(w *frame.Watched) {
	switch bookmark := w.Err == nil && w.Kind == watch.Bookmark; {
	case !bookmark:
		t.Progress.Event()
		t.Status.Progressed()
	case w.ResourceVersion > t.Cursor:
		t.Status.Progressed()
	default:
		t.Progress.Bookmark(t.Cursor, t.Clients.Furthest.Note(t.Cursor), t.Timing.Lag)
	}
}

// quiet is how long nothing has come, and what was found out about it.
type quiet struct {
	since time.Time
	// confirmed is the revision of a list that equals the index, or, if that was not
	// listed, the one at which the watch was opened; 0 if none. Unequal: the last list did
	// not equal the index.
	confirmed       uint64
	listed, unequal bool
}

// sitOut decides what a watch's silence means. One that has said nothing for
// long, not even a bookmark, may be dead: it is opened again from the cursor. If
// the new one has nothing to say either, it is a quiet resource without bookmarks
// (core Events send none for up to 10 minutes), whose cursor would grow older
// than etcd's history, so that the next reconnect would be a gap. Then a list is
// taken; if it equals the index, and the new watch is still quiet one tick later,
// there was nothing up to the list's revision, and the cursor moves there. Large
// lists are rarer, see calm.go. If the list differs, and the new watch has not
// brought the difference one tick later, a reconcile follows. The watch that fell
// silent itself proves nothing: it may hold back an object that was born and died.
func (t *Target) sitOut(ctx context.Context, q *quiet) error {
	switch {
	case q.confirmed != 0:
		t.MoveWithoutFrame(q.listed)
		if q.listed {
			t.listed = time.Now()
		}
		if q.confirmed > t.Cursor {
			t.SetCursor(q.confirmed)
		}
		t.Status.Progressed()
		*q, t.suspect = quiet{since: time.Now()}, false
		if err := t.namespaces.Pass(ctx, t.Cursor); err != nil {
			return err
		}
		return t.Losses.Settle(ctx)
	case t.suspect && t.rests(q):
		q.confirmed = max(t.Head, t.Cursor)
	case t.suspect:
		rv, same, err := t.MatchesList(ctx)
		if err != nil {
			return err
		}
		switch {
		case same:
			q.confirmed, q.listed = rv, true
		case q.unequal:
			t.fallBehind()
			return audit.ErrDiverged
		}
		q.unequal = !same // the watch has one more tick to bring what the list had
	case time.Since(q.since) >= t.silence():
		t.suspect = true
		return listwatch.ErrSilent
	}
	return nil
}

// silence is how long the watch may say nothing. Where it has a connection of its own
// nothing else finds out that the server at its other end is frozen.
func (t *Target) silence() time.Duration {
	if t.bookmarked {
		return t.Timing.Silence * 2 / 3
	}
	return t.Timing.Silence
}

// concludeAll ends the audit and the snapshot on request that are under way, if the
// watch has passed their lists.
func (t *Target) concludeAll(ctx context.Context) error {
	if err := t.Audits.Conclude(ctx); err != nil {
		return err
	}
	return t.concludeResnapshot(ctx)
}

// questions is where inquiries come from; never, while history is being recovered or the log lacks
// events.
func (t *Target) questions() <-chan func(*feed.Feed) {
	if !t.Whole() || t.Pending() {
		return nil
	}
	return t.Inquiries
}
