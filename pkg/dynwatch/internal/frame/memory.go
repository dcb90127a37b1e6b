package frame

import "strings"

// memory is where what is read of the frames of one watch is written. Without one (nil)
// each object has memory of its own.
type memory struct {
	text text
	// data is for the frames of the event that is being read.
	data *data
}

// room returns an empty slice with room for n bytes, and no more.
func (m *memory) room(n int) []byte {
	if m == nil {
		return make([]byte, 0, n)
	}
	return m.data.room(n)
}

// data is the memory for the Data of the frames of one event, used again for those of
// another when they are done with.
type data struct{ block []byte }

// reset has the memory used again: what lies in it is done with.
func (d *data) reset() {
	poison(d.block)
	d.block = d.block[:0]
}

func (d *data) room(n int) []byte {
	if n > busySize {
		return make([]byte, 0, n) // an idle watch keeps nothing large alive
	}
	if cap(d.block)-len(d.block) < n {
		d.block = make([]byte, 0, max(n, min(2*cap(d.block), keptSize)))
	}
	from := len(d.block)
	d.block = d.block[:from+n]
	return d.block[from : from : from+n]
}

// text is where the strings of a watch's objects are written one behind the other:
// one allocation for many of them. What was written stays as it is.
type text struct{ block strings.Builder }

// textSize is the size of a block once much was written; the first are smaller.
const textSize = 1 << 10

// room returns a builder in which there is room for n bytes.
func (t *text) room(n int) *strings.Builder {
	if before := t.block.Cap(); before-t.block.Len() < n {
		t.block.Reset()
		t.block.Grow(max(n, min(2*before, textSize)))
	}
	return &t.block
}
