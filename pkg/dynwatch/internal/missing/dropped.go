package missing

import (
	"context"
	"errors"

	"github.com/informd/informd/pkg/dynwatch/internal/feed"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
	"github.com/informd/informd/pkg/event"
)

// What an edit of the selectors drops has no end in the log: nothing has happened to
// it. Its last event looks like that of any object, so each later start has to find
// out what was dropped. The mark says that there is something; namespaces are known
// without asking, and for the other selectors a list, metadata only, at the very
// revision of the mark holds what the index should. Where etcd has forgotten that,
// a current list shows the objects that may have been dropped, and the watch, which resumes at the checkpoint,
// tells of each end since: what it says nothing of was dropped.

// drop forgets an object that is there and that an edit has dropped.
func (t *Decider) drop(e *index.Entry) {
	t.Index.Remove(e)
	t.Dropped.Objects++
	t.Status.Objects.Store(uint64(t.Index.Len()))
}

// SiftNamespaces leaves out of the index what is neither in a namespace that was
// covered at the mark nor in one that was on its way.
func (t *Decider) SiftNamespaces() {
	for e := range t.Index.All() {
		if !t.Coverage.Concerns(t.Index.Namespace(e)) {
			t.Index.Remove(e)
		}
	}
	t.Status.Objects.Store(uint64(t.Index.Len()))
}

// SettleDropped drops the candidates of which the watch has brought no event.
func (t *Decider) SettleDropped() {
	if len(t.Dropped.Candidates) > 0 && t.Dropped.Until != 0 && t.Cursor >= t.Dropped.Until {
		t.DropCandidates()
	}
}

// DropCandidates drops the candidates that have had no event since.
func (t *Decider) DropCandidates() {
	candidates := t.Dropped.Candidates
	t.Dropped = feed.Dropped{}
	for h, rv := range candidates {
		if e := t.Index.ByHandle(h); e != nil && e.RV == rv {
			t.drop(e)
		}
	}
	t.Marks.Soon()
}

// endMaybeDropped ends an entry that may have been dropped and that a list at rv did not hold: it was dropped, as
// far as anybody can say, unless it is gone.
func (t *Decider) endMaybeDropped(ctx context.Context, e *index.Entry, rv uint64) error {
	_, there, err := t.stillThere(ctx, e, 0)
	if err != nil && !errors.Is(err, listwatch.ErrLasting) {
		return err
	}
	if err == nil && !there {
		return t.End(ctx, event.Deleted, e, nil, rv, true)
	}
	t.drop(e)
	return nil
}

// MayBeDropped reports whether an entry may have been dropped.
func (t *Decider) MayBeDropped(e *index.Entry) bool {
	_, ok := t.Dropped.Candidates[t.Index.Handle(e)]
	return ok
}
