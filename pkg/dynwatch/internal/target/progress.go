package target

import (
	"context"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/status"
)

// A watch can be behind without an error. An API server whose watch cache gets nothing
// from etcd any more (etcd-io/etcd#15402, etcd-io/etcd#17529,
// kubernetes/kubernetes#123072) keeps its watches open and sends bookmarks, all at the
// revision at which its cache stopped. So each watch must reach the revision that a
// consistent read has shown. One that does not is replaced over another connection, which
// may reach another API server. If that one does not either, a consistent list is
// compared with the index, and a reconcile follows if they differ. The target is stale
// meanwhile. Of a watch that was at the head when it got stuck, the revision is asked for after a time
// without progress. The next bookmark decides then. Watches that the server ends one after the other are
// judged together.

// liveness is what says whether the watch brings what happens.
type liveness struct {
	// progress is how far the watches have come.
	progress listwatch.Progress
	// head is the resource's revision when the watch was opened.
	head uint64
	// suspect: the watch was opened because the one before fell silent.
	suspect bool
	// comparedAt is when a list was equal to the index last.
	comparedAt time.Time
	// bookmarked: the watch has brought a bookmark.
	bookmarked bool
	timing     *Timing
	status     *status.Status
}

// watchProgress decides what it means that the watch has not moved. It returns ErrStuck
// if the watch must be replaced, and a loss if a reconcile must follow.
func (t *Target) watchProgress(ctx context.Context) error {
	p := &t.liveness.progress
	p.Tick(t.position.rv, 2*t.Timing.Tick)
	switch {
	case !p.Reached(t.position.rv):
		if !t.liveness.bookmarked || !p.Late() && p.Left(t.Timing.Reach) > 0 {
			return nil // a watch without bookmarks is the matter of sitOut
		}
		return t.stuck(ctx)
	case t.liveness.bookmarked && p.Waited >= t.liveness.silence():
		return t.askHead(ctx)
	}
	return nil
}

// askHead asks for the revision of the store. Bookmarks at one revision mean that nothing
// happens in the store, or that the watch is stuck. An API server that is busy for a moment does not end a watch
// which may be well: it is asked again at each tick, as long as a watch may take to reach a revision. One that takes
// long to refuse does, because no frame is read meanwhile.
func (t *Target) askHead(ctx context.Context) error {
	p := &t.liveness.progress
	patient := p.Waited < t.liveness.silence()+t.Timing.Reach
	if patient && t.Clients.Pace.Closed(t.Discovery.Source.Resource.GVR.Group) > 0 {
		return nil
	}
	began := time.Now()
	head, err := t.Discovery.Source.Revision(ctx)
	switch passes := StateAfter(err, true) == status.Stale && time.Since(began) < lookPatience; {
	case err == nil:
	case patient && passes:
		t.Logger.Debug("newest revision not read; asking again", "err", err, "pause", t.Timing.Tick)
		return nil
	default:
		return err
	}
	p.Asked()
	if head < t.position.rv {
		return t.behindPosition(ctx) // the watch is of another history
	}
	switch p.Expect(t.position.rv, head); {
	case p.Head == 0:
		t.Status.Progressed()
	case p.Stuck > 0:
		return t.stuck(ctx)
	}
	return nil
}

// stuck replaces the watch the first time, and compares the index with a list from then on.
func (t *Target) stuck(ctx context.Context) error {
	p := &t.liveness.progress
	p.Waited = 0
	p.Stuck++
	t.Status.Stuck.Add(1)
	if p.Stuck == 1 {
		t.Logger.Warn("watch is behind; opening another connection", "resource_version", t.position.rv, "head", p.Head,
			"runbook", display.GapRunbook(reasonBehind))
		return listwatch.ErrStuck
	}
	rv, same, err := t.matchesList(ctx)
	if err != nil {
		return err
	}
	if same {
		p.Lenience = min(p.Lenience+1, listwatch.MaxLenience)
		p.Head, p.Stuck = 0, 0
		t.Logger.Info("bookmarks are late; a list shows no missing event", "resource_version", t.position.rv, "list_resource_version", rv)
		return nil
	}
	return t.fallBehind()
}

// compareEnded compares the index with a list if the head has been above the position for as long
// as one watch may take to reach it, while the server ended or refused each watch. The watch that is opened
// next has to bring the difference: what a list shows is newer than the watches before it. A
// list that fails proves nothing, and another one follows.
func (t *Target) compareEnded(ctx context.Context) error {
	p := &t.liveness.progress
	if !p.Again(t.position.rv, t.liveness.head, t.Timing.Reach, 2*t.Timing.BackoffCap) {
		return nil
	}
	_, same, err := t.matchesList(ctx)
	switch {
	case isLoss(err):
		return err
	case err != nil:
		t.Logger.Warn("watches end, and the comparison with a list failed; opening another watch", "err", err)
	default:
		p.Compared(t.position.rv, same)
	}
	return nil
}

// endedBy is the error after a watch that the server has ended or refused with err: a loss, if the watch had to bring
// what a list has shown.
func (t *Target) endedBy(err error) error {
	if !t.liveness.progress.EndedWithout(t.position.rv) {
		return err
	}
	t.Status.Stuck.Add(1)
	return t.fallBehind()
}

// fallBehind has a list replace what the watch does not bring.
func (t *Target) fallBehind() error {
	t.Logger.Warn("watch is behind; reconciling from a list", "resource_version", t.position.rv,
		"runbook", display.GapRunbook(reasonBehind))
	return lossError{of: &loss{reason: reasonBehind, from: t.position.provenSince()}}
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
// lists are rarer: see rests. If the list differs, and the new watch has not
// brought the difference one tick later, a reconcile follows. The watch that fell
// silent itself proves nothing: it may hold back an object that was born and died.
func (t *Target) sitOut(ctx context.Context, q *quiet) error {
	switch {
	case q.confirmed != 0:
		t.position.moveWithoutFrame(q.listed)
		if q.listed {
			t.liveness.comparedAt = time.Now()
		}
		if q.confirmed > t.position.rv {
			t.position.set(q.confirmed)
		}
		t.Status.Progressed()
		*q, t.liveness.suspect = quiet{since: time.Now()}, false
		return t.passed(ctx, t.position.rv)
	case t.liveness.suspect && t.liveness.rests(q, t.Index.Len()):
		q.confirmed = max(t.liveness.head, t.position.rv)
	case t.liveness.suspect:
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
	case time.Since(q.since) >= t.liveness.silence():
		t.liveness.suspect = true
		return listwatch.ErrSilent
	}
	return nil
}

// silence is how long the watch may say nothing. Where it has a connection of its own
// nothing else finds out that the server at its other end is frozen.
func (lv *liveness) silence() time.Duration {
	if lv.bookmarked {
		return lv.timing.Silence * 2 / 3
	}
	return lv.timing.Silence
}

// A resource without bookmarks that is quiet costs a list of all its objects for each
// move of its cursor: with --watch-cache=false, every three and a half minutes. So the
// larger the list, the rarer it is. In between the cursor moves to the revision that the
// store had when the new watch was opened: that watch would have brought at once what
// happened before.

const (
	// calmPages is how many pages of lists a quiet target may ask for in the time after
	// which a watch counts as silent.
	calmPages = 3
	// calmSilences bounds the time between two lists, in the same unit: an hour.
	calmSilences = 20
)

// rests reports whether a quiet target needs no list yet.
func (lv *liveness) rests(q *quiet, objects int) bool {
	if q.unequal || lv.progress.Stuck > 0 {
		return false
	}
	pages := listwatch.PagesFor(objects)
	every := min(time.Duration(pages)*lv.timing.Silence/calmPages, calmSilences*lv.timing.Silence)
	return time.Since(lv.comparedAt) < every-lv.timing.Silence/2 // else it would be one silence later
}
