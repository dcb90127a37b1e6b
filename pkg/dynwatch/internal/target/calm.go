package target

import (
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

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
func (t *Target) rests(q *quiet) bool {
	if q.unequal || !t.Whole() || t.Progress.Stuck > 0 {
		return false
	}
	pages := listwatch.PagesFor(t.Index.Len())
	every := min(time.Duration(pages)*t.Timing.Silence/calmPages, calmSilences*t.Timing.Silence)
	return time.Since(t.listed) < every-t.Timing.Silence/2 // else it would be one silence later
}
