package frame

import (
	"cmp"
	"strings"
)

// Memory holds the bytes of consecutive objects: their Data until Reset, and their strings
// for good. The zero Memory is ready for use. With a nil Memory each object has separate
// memory.
type Memory struct {
	// Most is how large a piece of memory it makes for Data, 64 KiB if it is 0.
	Most int

	text text
	data []byte // the piece that is being filled
}

// Reset has the memory used again: the Data in it is written over.
func (m *Memory) Reset() {
	poison(m.data)
	if len(m.data) < cap(m.data)/4 {
		m.data = nil // a burst was in it: an idle watch keeps nothing large alive
	}
	m.data = m.data[:0]
}

// room returns an empty slice with room for n bytes, and no more. It is not in the
// memory if it is large.
func (m *Memory) room(n int) []byte {
	if m == nil || n > busySize {
		return make([]byte, 0, n)
	}
	if cap(m.data)-len(m.data) < n {
		m.data = make([]byte, 0, max(n, min(2*cap(m.data), cmp.Or(m.Most, keptSize))))
	}
	from := len(m.data)
	m.data = m.data[:from+n]
	return m.data[from : from : from+n]
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
