package dynwatch

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

// calm is how a quiet target gets along with few lists.
type calm struct {
	// listed is when a list equalled the index last.
	listed time.Time
	// proven is up to where lists and frames have proven the stream, 0 if that is the
	// cursor. The checkpoint has it.
	proven uint64
	// opened is the position at which the open watch began.
	opened uint64
}

// rests reports whether a quiet target needs no list yet.
func (t *target) rests(q *quiet) bool {
	if q.unequal || t.lost != nil || len(t.undecided) > 0 || t.progress.Stuck > 0 {
		return false
	}
	pages := listwatch.PagesFor(t.index.Len())
	every := min(time.Duration(pages)*t.timing.Silence/calmPages, calmSilences*t.timing.Silence)
	return time.Since(t.calm.listed) < every-t.timing.Silence/2 // else it would be one silence later
}

// moves notes that the cursor is about to move without a frame, by a list or without one.
func (c *calm) moves(cursor uint64, listed bool) {
	switch {
	case listed:
		c.listed, c.proven = time.Now(), 0
	case c.proven == 0:
		c.proven = cursor
	}
}

// moveTo moves the cursor to the revision of a frame. The frame proves the stream from where
// its watch began.
func (t *target) moveTo(rv uint64) {
	if rv <= t.cursor {
		return
	}
	if c := &t.calm; c.opened <= c.proven {
		c.proven = 0
	}
	t.setCursor(rv)
}

// since is from where the stream is unproven, given the position of the watch.
func (c *calm) since(position uint64) uint64 {
	if c.proven == 0 {
		return position
	}
	return min(c.proven, position)
}
