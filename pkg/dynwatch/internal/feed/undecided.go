package feed

import (
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/index"
)

// Undecided is an object for which a DELETED frame came so late that etcd no
// longer knows whether it was deleted or left: only how it is at revision at.
// Frames may still show it until then: it may have come back before its deletion.
// Two deletion events would follow.
type Undecided struct {
	Entry index.Handle
	RV    uint64
	At    uint64
	Now   *frame.Object // nil if it is gone
	There bool
}

// Dropped is what a target knows of objects that an edit has dropped.
type Dropped struct {
	// Objects is how many have an event in the log that is no end. Unsifted: they are
	// in the index still.
	Objects  int
	Unsifted bool
	// Candidates are entries that may be such, by revision, until the stream has passed
	// until.
	Candidates map[index.Handle]uint64
	Until      uint64
}

// Marked is what the mark has to say.
func (d *Dropped) Marked(before int) int {
	if d.Unsifted || len(d.Candidates) > 0 {
		return before
	}
	return d.Objects
}
