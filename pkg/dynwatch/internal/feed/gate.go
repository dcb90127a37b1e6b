package feed

import (
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// Unchanged reports whether the gates would hold the object's state back. Revisions
// of another epoch must not stay in the index: with them nothing is known.
func (t *Feed) Unchanged(e *index.Entry, o *frame.Object) bool {
	return o.Gates != nil && e.Epoch == t.Epoch && !o.Gates.Open(o.Hashes, t.Index.Hashes(e))
}

// holdBack holds an object's new state back if the gates say so. While all objects are
// announced again on request, none is: the watch brings what the list had earlier.
func (t *Feed) holdBack(e *index.Entry, o *frame.Object) bool {
	if t.Repeating || !t.Unchanged(e, o) {
		return false
	}
	t.Status.Unchanged.Add(1)
	t.HeldBack(e, o.ResourceVersion)
	return true
}

// HeldBack notes that an object was there at a revision, and as it was announced.
func (t *Feed) HeldBack(e *index.Entry, rv uint64) {
	t.Index.Skip(e, rv)
	h := t.Index.Handle(e)
	delete(t.Dropped.Doubtful, h)
	t.Undecided = slices.DeleteFunc(t.Undecided, func(u Undecided) bool { return u.Entry == h })
}

// MayHaveHeldBack reports whether a state that the watch has come past, newer than the
// last event, may be one that was held back.
func (t *Feed) MayHaveHeldBack(e *index.Entry, rv uint64) bool {
	skipped, filtered := t.Index.Skipped(e)
	return filtered && e.Epoch == t.Epoch && rv > e.RV && (rv == skipped || skipped == 0 && rv <= t.Cursor)
}
