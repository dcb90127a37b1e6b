package feed

import "github.com/informd/informd/pkg/dynwatch/internal/index"

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
