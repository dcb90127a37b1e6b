package dynwatch

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
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// follow watches from the cursor until the watch ends for whatever reason.
func (t *target) follow(ctx context.Context) error {
	t.status.set(Stale, "opening the watch")
	rolledBack, err := t.checkRollback(ctx)
	if err != nil || rolledBack {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := t.source.Watch(ctx, t.resume(), t.progress.Stuck > 0 || t.lost != nil && t.lost.Phase == recovery.Asking)
	if listwatch.Expired(err) {
		return t.losses.expire(err)
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	if err := t.clients.Identity.Check(ctx); err != nil {
		return err
	}
	t.status.watches.Add(1)
	began := time.Now()
	defer func() { t.status.watchTime.Add(int64(time.Since(began))) }()
	t.progress.Opened(t.cursor, t.await.head)
	t.opened = t.resume()
	if err := t.showWatch(ctx); err != nil {
		return err
	}
	if err = t.namespaces.reselect(ctx); err == nil {
		err = t.receive(ctx, w)
	}
	t.audits.abandonAudit()
	t.resnapshots.stopReader()
	switch {
	case listwatch.Expired(err):
		return t.losses.expire(err)
	case errors.Is(err, errDiverged), errors.Is(err, errMoved), errors.Is(err, errReadAhead),
		errors.Is(err, errRolledBack), errors.Is(err, listwatch.ErrStuck):
		return nil
	}
	return err
}

// showWatch shows that the watch is open, whether deletions that a list found still
// wait for it to pass, and whether that of the Namespaces is open, too.
func (t *target) showWatch(ctx context.Context) error {
	t.unwatched, t.closedSince = false, time.Time{}
	t.endOpening()
	t.status.looked.Store(true)
	if t.lost != nil && t.lost.Phase == recovery.Settling {
		t.setState(Syncing, fmt.Sprintf("the watch has not reached revision %d of a list yet", t.lost.Settled))
		return nil
	}
	state, reason := Live, ""
	if err := t.coverage.Trouble(); err != nil {
		state, reason = Stale, "namespaceSelector: "+err.Error()
	}
	if t.progress.Reached(t.cursor); t.progress.Stuck > 0 {
		state, reason = Stale, t.progress.Reason(t.cursor)
	}
	t.setState(state, reason)
	return t.tellState(ctx, reason)
}

// receive handles what the watch brings until it ends.
func (t *target) receive(ctx context.Context, w watch.Interface) error {
	tick := time.NewTimer(kube.UntilNext(t.timing.Tick))
	defer tick.Stop()
	began := time.Now()
	q := quiet{since: began}
	t.ahead, t.bookmarked = 0, false
	t.resnapshots.reannounce(ctx)
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.ResultChan():
			if !ok {
				return t.timing.Closed(began)
			}
			if err = t.handleEvent(ctx, e); err == nil {
				q, t.suspect = quiet{since: time.Now()}, false
			}
		case <-t.coverage.Changed:
			t.coverage.Due = true
			err = t.showWatch(ctx)
		case <-t.marks.C:
			err = t.markNow(ctx)
		case <-tick.C:
			tick.Reset(kube.UntilNext(t.timing.Tick))
			err = t.onTick(ctx, &q)
		case <-t.nudge.Wake:
			t.nudged()
			t.looks.timer.Reset(t.soon())
		case <-t.looks.timer.C:
			err = t.look(ctx)
		case reply := <-t.audits.requests:
			t.audits.waiting = append(t.audits.waiting, reply)
			t.audits.audit(ctx)
		case page, more := <-t.audits.running.Pages():
			t.audits.auditPage(page, more)
		case <-t.resnapshots.timer.C:
			t.resnapshots.reannounce(ctx)
		case request := <-t.resnapshots.resnapshots():
			err = t.resnapshots.beginResnapshot(ctx, request)
		case notice := <-t.resnapshots.relogged():
			err = t.resnapshots.relog(ctx, notice)
		case reply := <-t.questions():
			t.tellKnown(reply)
		case object, more := <-t.resnapshots.objects():
			err = t.resnapshots.reannounceNext(ctx, object, more)
		}
		if err == nil {
			err = t.betweenFrames(ctx)
		}
		if err == nil && t.shown != Live {
			err = t.showWatch(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// onTick does what the clock is for while the watch is open.
func (t *target) onTick(ctx context.Context, q *quiet) error {
	t.status.beatNow()
	t.ForgetStates()
	err := t.sitOut(ctx, q)
	if err == nil {
		err = t.watchProgress(ctx)
	}
	t.audits.audit(ctx)
	return err
}

// betweenFrames does what must not fall into the middle of a frame.
func (t *target) betweenFrames(ctx context.Context) error {
	if err := t.namespaces.reselect(ctx); err != nil {
		return err
	}
	return t.concludeAll(ctx)
}

// handleEvent takes the frames of one event of the watch.
func (t *target) handleEvent(ctx context.Context, e watch.Event) error {
	if e.Type == watch.Error {
		return fmt.Errorf("watch: %w", apierrors.FromObject(e.Object))
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
func (t *target) handle(ctx context.Context, w *frame.Watched) error {
	done, err := t.gather(ctx, w)
	if done || err != nil {
		return err
	}
	t.progressBy(w)
	t.resetPause()
	if t.lost != nil && t.lost.Phase == recovery.Asking {
		t.lost = nil // the other API server still had the history
	}
	if t.lost == nil {
		t.losses.reconciles = 0
	}
	rv, namespace, name := w.ResourceVersion, w.Namespace, w.Name
	if w.Err != nil {
		rv, namespace, name = w.Err.ResourceVersion, w.Err.Namespace, w.Err.Name
	}
	leftOut, err := t.namespaces.leavesOut(ctx, w.Kind, w)
	if err != nil {
		return err
	}
	if !leftOut && len(t.dropped.doubtful) > 0 {
		delete(t.dropped.doubtful, t.index.Handle(t.index.Get(namespace, name))) // what was dropped has no frames
	}
	defer t.await.frame(rv)()
	switch {
	case leftOut: // but the cursor moves on
	case w.Err != nil:
		if err := t.rejectFrame(ctx, w.Kind, w.Err); err != nil {
			return err
		}
	case w.Kind != watch.Bookmark:
		if err := t.apply(ctx, w.Kind, &w.Object); err != nil {
			return err
		}
	}
	t.bookmarked = t.bookmarked || w.Err == nil && w.Kind == watch.Bookmark
	t.moveTo(rv)
	if w.Kind == watch.Deleted && rv == t.cursor {
		name := index.Key(namespace, name)
		t.ended[name] = max(t.ended[name], rv)
	}
	if err := t.decide(ctx); err != nil {
		return err
	}
	t.settleDropped()
	return t.losses.settle(ctx)
}

// progressBy shows progress, which a bookmark at the same revision is not.
func (t *target) progressBy(w *frame.Watched) {
	if w.Err != nil || w.Kind != watch.Bookmark || w.ResourceVersion > t.cursor {
		t.status.progressNow()
	}
}

// rejectFrame keeps a frame that cannot be passed on. An end comes out all the
// same if it is clear of what: the object's last state is all that is lost.
func (t *sweeper) rejectFrame(ctx context.Context, typ watch.EventType, bad *frame.Malformed) error {
	if err := t.reject(ctx, bad); err != nil {
		return err
	}
	e := t.index.Get(bad.Namespace, bad.Name)
	if e == nil || bad.ResourceVersion < e.RV {
		return nil
	}
	var err error
	if typ == watch.Deleted && t.index.IsUID(e, bad.UID) {
		err = t.end(ctx, event.Deleted, e, nil, max(bad.ResourceVersion, e.RV+1), false)
	} else {
		err = t.endReplaced(ctx, e, bad)
	}
	return errors.Join(err, t.Flush(ctx))
}

// apply brings one live frame through the index into the log.
func (t *sweeper) apply(ctx context.Context, typ watch.EventType, o *frame.Object) error {
	if o.ResourceVersion < t.cursor && !t.isLate(typ, o) {
		return nil
	}
	if o.ResourceVersion <= t.endedAt(o.Namespace, o.Name) {
		return nil // the watch was resumed from before its end, see resume
	}
	return errors.Join(t.applyState(ctx, typ, o), t.Flush(ctx))
}

// applyState is apply for what the cursor may be beyond of.
func (t *sweeper) applyState(ctx context.Context, typ watch.EventType, o *frame.Object) error {
	e := t.index.Get(o.Namespace, o.Name)
	if e != nil && !t.index.IsUID(e, o.UID) {
		if o.ResourceVersion <= e.RV {
			return nil
		}
		// The old object's end was not seen; under a name there is one at a time.
		if err := t.end(ctx, event.Deleted, e, nil, replacedAt(e, o.ResourceVersion), true); err != nil {
			return err
		}
		e = nil
	}
	return t.applyTo(ctx, typ, o, e)
}

// applyTo is apply once it is known what the index holds of the frame's object.
func (t *sweeper) applyTo(ctx context.Context, typ watch.EventType, o *frame.Object, e *index.Entry) error {
	switch {
	case e != nil && o.ResourceVersion <= t.index.Newest(e) && !t.endsAtLast(typ, o, e):
		return nil // a reconcile already brought it
	case typ == watch.Deleted && e == nil:
		// Born in a gap and ended here: nobody was told of it, but its end is part
		// of the history that can be seen.
		return t.endUntold(ctx, o)
	case typ == watch.Deleted:
		return t.endGone(ctx, e, o, true)
	case e == nil:
		op, err := t.arrivalOp(ctx, o)
		if err != nil {
			return err
		}
		return t.announce(ctx, op, o, nil, false)
	default:
		return t.announce(ctx, event.Modified, o, e, false)
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
func (t *target) sitOut(ctx context.Context, q *quiet) error {
	switch {
	case q.confirmed != 0:
		t.moves(q.listed)
		if q.listed {
			t.listed = time.Now()
		}
		if q.confirmed > t.cursor {
			t.setCursor(q.confirmed)
		}
		t.status.progressNow()
		*q, t.suspect = quiet{since: time.Now()}, false
		if err := t.namespaces.pass(ctx, t.cursor); err != nil {
			return err
		}
		return t.losses.settle(ctx)
	case t.suspect && t.rests(q):
		q.confirmed = max(t.await.head, t.cursor)
	case t.suspect:
		rv, same, err := t.matchesList(ctx)
		if err != nil {
			return err
		}
		switch {
		case same:
			q.confirmed, q.listed = rv, true
		case q.unequal:
			return t.fallBehind()
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
func (t *target) silence() time.Duration {
	if t.bookmarked {
		return t.timing.Silence * 2 / 3
	}
	return t.timing.Silence
}

// matchesList reports whether a list of now equals the index.
func (t *sweeper) matchesList(ctx context.Context) (rv uint64, same bool, err error) {
	same, n := true, 0
	var against recovery.Contradictions
	rv, err = t.source.ListMetadata(ctx, 0, func(m listwatch.Listed) error {
		n++
		e := t.index.Get(m.Namespace, m.Name)
		against.Note(t.index, e, m)
		same = same && e != nil && t.index.IsUID(e, m.UID) && (t.index.Newest(e) == m.RV || t.mayHaveHeldBack(e, m.RV))
		return nil
	})
	if err == nil {
		err = t.clients.Identity.Check(ctx)
	}
	if err == nil {
		err = t.checkHistory(ctx, &against, rv)
	}
	return rv, same && n == t.index.Len(), err
}
