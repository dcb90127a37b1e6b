package feed

import (
	"slices"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// NoteHeldBack notes that an object existed at a revision, in a state that the change filters held
// back.
func (t *Feed) NoteHeldBack(e *index.Entry, rv uint64) {
	t.HeldBack = true
	t.Index.Skip(e, rv)
	h := t.Index.Handle(e)
	t.Undecided = slices.DeleteFunc(t.Undecided, func(u Undecided) bool { return u.Entry == h })
}

// MayHaveHeldBack reports whether a state that the watch has come past, newer than the
// last event, may be one that was held back.
func (t *Feed) MayHaveHeldBack(e *index.Entry, rv uint64) bool {
	skipped := t.Index.Skipped(e)
	return t.HeldBack && e.Epoch == t.Epoch && rv > e.RV && (rv == skipped || skipped == 0 && rv <= t.Cursor)
}
