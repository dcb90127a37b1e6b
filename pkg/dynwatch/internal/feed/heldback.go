package feed

import (
	"math"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// several stands for different change filters, one after the other.
const several = math.MaxUint64

// NoteHeldBack notes that an object existed at a revision, in a state that the change filters held
// back.
func (t *Feed) NoteHeldBack(e *index.Entry, rv uint64) {
	switch by := t.FiltersID(); t.HeldBackBy {
	case 0, by:
		t.HeldBackBy = by
	default:
		t.HeldBackBy = several
	}
	t.Index.Skip(e, rv)
	delete(t.Dropped.Candidates, t.Index.Handle(e))
}

// MayHaveHeldBack reports whether a state that the watch has come past, newer than the
// last event, may be one that was held back.
func (t *Feed) MayHaveHeldBack(e *index.Entry, rv uint64) bool {
	skipped := t.Index.Skipped(e)
	return t.HeldBackBy != 0 && e.Epoch == t.Epoch && rv > e.RV && (rv == skipped || skipped == 0 && rv <= t.Cursor)
}
