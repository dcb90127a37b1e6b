package dynwatch

import (
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// unchanged reports whether the gates would hold the object's state back. Revisions
// of another epoch must not stay in the index: with them nothing is known.
func (t *feed) unchanged(e *index.Entry, o *frame.Object) bool {
	return o.Gates != nil && e.Epoch == t.Epoch && !o.Gates.Open(o.Hashes, t.index.Hashes(e))
}

// holdBack holds an object's new state back if the gates say so. While all objects are
// announced anew on request, none is: what the list was ahead of is told by the watch.
func (t *feed) holdBack(e *index.Entry, o *frame.Object) bool {
	if t.repeating || !t.unchanged(e, o) {
		return false
	}
	t.status.unchanged.Add(1)
	t.heldBack(e, o.ResourceVersion)
	return true
}

// heldBack notes that an object was there at a revision, and as it was announced.
func (t *feed) heldBack(e *index.Entry, rv uint64) {
	t.index.Skip(e, rv)
	h := t.index.Handle(e)
	delete(t.dropped.doubtful, h)
	t.undecided = slices.DeleteFunc(t.undecided, func(u undecided) bool { return u.entry == h })
}

// mayHaveHeldBack reports whether a state that the watch has come past, newer than the
// last event, may be one that was held back.
func (t *feed) mayHaveHeldBack(e *index.Entry, rv uint64) bool {
	skipped, filtered := t.index.Skipped(e)
	return filtered && e.Epoch == t.Epoch && rv > e.RV && (rv == skipped || skipped == 0 && rv <= t.cursor)
}
