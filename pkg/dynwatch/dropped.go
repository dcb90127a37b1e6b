package dynwatch

import (
	"context"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/dynwatch/internal/recovery"
	"github.com/informd/informd/pkg/event"
)

// What an edit of the selectors drops has no end in the log: nothing has happened to
// it. Its last event looks like that of any object, so each later start has to find
// out what was dropped. The mark says that there is something; namespaces are known
// without asking, and for the other selectors a list, metadata only, at the very
// revision of the mark holds what the index should. Where etcd has forgotten that,
// a list of now says what is in doubt, and the watch, which goes on from the mark,
// tells of each end since: what it says nothing of was dropped.

// dropped is what a target knows of objects that an edit has dropped.
type dropped struct {
	// objects is how many have an event in the log that is no end. Unsifted: they are
	// in the index still.
	objects  int
	unsifted bool
	// doubtful are entries that may be such, by revision, until the stream has passed
	// until.
	doubtful map[index.Handle]uint64
	until    uint64
}

// drop forgets an object that is there and that an edit has dropped.
func (t *decider) drop(e *index.Entry) {
	t.index.Remove(e)
	t.dropped.objects++
	t.status.objects.Store(uint64(t.index.Len()))
}

// sift leaves out of the index what was dropped before the mark.
func (t *sweeper) sift(ctx context.Context) error {
	if t.lost != nil && t.lost.Reason == recovery.ReasonSelection {
		t.dropped = dropped{} // all is looked at anyway
		return nil
	}
	t.setState(Syncing, "removing objects that the config no longer selects")
	rolledBack, err := t.checkRollback(ctx)
	if err != nil {
		return err
	}
	at, number := t.cursor, t.newSweep(sweep{}).number
	seen := func(m listwatch.Listed) error {
		t.status.progressNow()
		if e := t.index.Get(m.Namespace, m.Name); e != nil {
			e.Sweep = number
		}
		return nil
	}
	exact, until := false, uint64(0)
	if !rolledBack {
		_, err = t.source.ListMetadata(ctx, at, seen)
		if exact = err == nil; listwatch.Expired(err) || listwatch.Unsupported(err) {
			until, err = t.source.ListMetadata(ctx, 0, seen)
		}
		if err != nil {
			return err
		}
	}
	found := dropped{doubtful: make(map[index.Handle]uint64), until: until}
	for e := range t.index.All() {
		if e.Sweep != number && e.RV <= at && t.coverage.Filter.Covers(t.index.Namespace(e)) {
			found.doubtful[t.index.Handle(e)] = e.RV
		}
	}
	t.dropped = found
	if exact {
		t.dropDoubtful()
	}
	return nil
}

// siftNamespaces leaves out of the index what is neither in a namespace that was
// covered at the mark nor in one that was on its way.
func (t *decider) siftNamespaces() {
	for e := range t.index.All() {
		if !t.coverage.Concerns(t.index.Namespace(e)) {
			t.index.Remove(e)
		}
	}
	t.status.objects.Store(uint64(t.index.Len()))
}

// settleDropped drops what is in doubt and the watch has not told of.
func (t *decider) settleDropped() {
	if len(t.dropped.doubtful) > 0 && t.dropped.until != 0 && t.cursor >= t.dropped.until {
		t.dropDoubtful()
	}
}

func (t *decider) dropDoubtful() {
	doubtful := t.dropped.doubtful
	t.dropped = dropped{}
	for h, rv := range doubtful {
		if e := t.index.ByHandle(h); e != nil && e.RV == rv {
			t.drop(e)
		}
	}
	t.marks.Soon()
}

// endDoubtful ends an entry in doubt that a list at rv did not hold: it was dropped, as
// far as anybody can say, unless it is gone.
func (t *decider) endDoubtful(ctx context.Context, e *index.Entry, rv uint64) error {
	_, there, err := t.stillThere(ctx, e, 0)
	switch {
	case err != nil:
		return err
	case there:
		t.drop(e)
		return nil
	default:
		return t.end(ctx, event.Deleted, e, nil, rv, true)
	}
}

// doubts reports whether an entry may have been dropped.
func (t *decider) doubts(e *index.Entry) bool {
	_, ok := t.dropped.doubtful[t.index.Handle(e)]
	return ok
}

// marked is what the mark has to say.
func (d *dropped) marked(before int) int {
	if d.unsifted || len(d.doubtful) > 0 {
		return before
	}
	return d.objects
}
