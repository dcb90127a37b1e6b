package target

import (
	"context"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

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
