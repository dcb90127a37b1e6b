package dynwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// A watch can be behind without an error. An API server whose watch cache gets nothing
// from etcd any more (etcd-io/etcd#15402, etcd-io/etcd#17529,
// kubernetes/kubernetes#123072) keeps its watches open and sends bookmarks, all at the
// revision at which its cache stopped. So each watch must reach the revision that a
// consistent read has shown. One that does not is replaced over another connection, which
// may reach another API server. If that one does not either, a consistent list is
// compared with the index, and a reconcile follows if they differ. The target is stale
// meanwhile.

// errStuck: the watch did not reach a known revision in time.
var errStuck = errors.New("the watch is behind and receives nothing")

// maxLenience bounds how often the time to reach the head is doubled. API servers without
// consistent lists from the cache learn of new revisions of quiet resources from etcd's
// progress notifications, every 10 minutes by default.
const maxLenience = 3

// progress is how far the watches of a target have come.
type progress struct {
	// head is a revision that the store is known to have reached and the watch has not,
	// 0 if there is none.
	head uint64
	// seen is the cursor at the last tick; waited is for how long a watch was open since
	// then without moving, ticked when that was last counted.
	seen   uint64
	waited time.Duration
	ticked time.Time
	// stuck counts watches in a row that did not reach the head in time; the last one was
	// opened at a revision that it has to leave by itself.
	stuck   int
	opening uint64
	// lenience counts how often the time to reach the head has been doubled, as a list
	// showed that nothing was missing.
	lenience int
}

// opened notes that a watch is open while the store is at head.
func (p *progress) opened(cursor, head uint64) {
	p.ticked, p.opening = time.Now(), cursor
	p.expect(cursor, head)
}

// expect has the watch reach a revision.
func (p *progress) expect(cursor, head uint64) {
	if head > cursor {
		p.head = max(p.head, head)
	}
}

// reached reports whether the watch has reached what it must, and takes note of it.
func (p *progress) reached(cursor uint64) bool {
	if p.head != 0 && cursor < p.head {
		return false
	}
	p.head = 0
	if cursor > p.opening {
		p.stuck = 0
	}
	return true
}

// tick counts the time without a move since the last tick, of which most can be of the
// API server: the rest the loop was busy otherwise.
func (p *progress) tick(cursor uint64, most time.Duration) {
	now := time.Now()
	if cursor != p.seen {
		p.seen, p.waited = cursor, 0
	} else {
		p.waited += min(now.Sub(p.ticked), most)
	}
	p.ticked = now
}

// reason says why the target is stale.
func (p *progress) reason(cursor uint64) string {
	if p.head == 0 {
		return fmt.Sprintf("the watch is behind: informd reads lists instead, the last one at revision %d", cursor)
	}
	return fmt.Sprintf("the watch is behind: the watch is at revision %d, and the API server announced %d", cursor, p.head)
}

// watchProgress decides what it means that the watch has not moved. It returns errStuck
// if the watch must be replaced, and errDiverged if a reconcile must follow.
func (t *target) watchProgress(ctx context.Context) error {
	p := &t.progress
	p.tick(t.cursor, 2*t.timing.tick)
	switch {
	case !p.reached(t.cursor):
		if !t.bookmarked || p.waited < t.timing.reach<<p.lenience {
			return nil // a watch without bookmarks is the matter of sitOut
		}
		return t.stuck(ctx)
	case t.bookmarked && p.waited >= t.silence():
		return t.askHead(ctx)
	}
	return nil
}

// askHead asks for the revision of the store. Bookmarks at one revision mean that nothing
// happens in the store, or that the watch is stuck.
func (t *target) askHead(ctx context.Context) error {
	p := &t.progress
	head, err := t.source.Revision(ctx)
	if err != nil {
		return err
	}
	p.waited = 0
	if head < t.cursor {
		return cmp.Or(t.doubt(ctx), errRolledBack) // the watch is of another history
	}
	switch p.expect(t.cursor, head); {
	case p.head == 0:
		t.status.progressNow()
	case p.stuck > 0:
		return t.stuck(ctx)
	}
	return nil
}

// stuck replaces the watch the first time, and compares the index with a list from then on.
func (t *target) stuck(ctx context.Context) error {
	p := &t.progress
	p.waited = 0
	p.stuck++
	t.status.stuck.Add(1)
	if p.stuck == 1 {
		t.logger.Warn("watch is behind; opening another connection", "resource_version", t.cursor, "head", p.head)
		return errStuck
	}
	rv, same, err := t.matchesList(ctx)
	if err != nil {
		return err
	}
	if same {
		p.lenience = min(p.lenience+1, maxLenience)
		p.head, p.stuck = 0, 0
		t.logger.Info("bookmarks are late; a list shows no missing event", "resource_version", t.cursor, "list_resource_version", rv)
		return nil
	}
	return t.fallBehind()
}

// fallBehind has a list replace what the watch does not bring.
func (t *target) fallBehind() error {
	t.logger.Warn("watch is behind; reconciling from a list", "resource_version", t.cursor)
	if l := t.lost; l != nil && l.phase != asking { // that gap is not declared yet
		l.phase, l.oldest, l.absent = reconciling, 0, nil
		return errDiverged
	}
	t.lost = &lost{phase: reconciling, from: t.calm.since(t.resume()), reason: reasonBehind}
	return errDiverged
}
