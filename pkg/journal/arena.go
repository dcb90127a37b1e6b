package journal

import (
	"bytes"
	"slices"
)

// blockSize is the size of a journal's blocks.
const blockSize = 256 << 10

// keptSize is how much of its memory a journal keeps for good.
const keptSize = 8 << 20

// arena is the memory of what the events of a [Memory] carry. Its blocks are filled one
// after the other, and what was given back is filled again, the block first that has been
// empty longest. So a journal of the usual size goes round in as much memory as it takes
// when it is full: a sink that stops does not make the process larger, and a stream that
// flows is no work for the garbage collector. Of a larger one the rest comes and goes.
// Larger pieces have memory of their own.
//
// Pieces must be given back in the order in which they were kept. A piece that lies in a
// block is written over some time after that.
type arena struct {
	size int // of a block
	// most is how many blocks stay once they were needed, made how many there are. While
	// none is empty more are made, so that there may be a third more, and two.
	most, made int
	// used are the blocks that hold something, oldest first, and the last one, which is
	// being filled; empty are the others, the one first that is to be filled next.
	used, empty []*block
}

// block is filled up to its length.
type block struct {
	bytes []byte
	held  int // how many pieces of it are not given back
}

// newArena makes an arena that holds up to capacity bytes in blocks of a size. It takes
// them when it needs them.
func newArena(capacity uint64, size int) arena {
	const least = 2
	return arena{size: size, most: max(least, int(min(capacity, keptSize)/uint64(size)))}
}

// fits reports whether a piece has a place in a block. So a block is three quarters full
// at least when the next one is begun.
func (a *arena) fits(piece []byte) bool { return len(piece) <= a.size/4 }

// keep returns a copy of a piece, without room for more behind it.
func (a *arena) keep(piece []byte) []byte {
	switch {
	case len(piece) == 0:
		return piece
	case !a.fits(piece):
		return bytes.Clone(piece)
	}
	b := a.last()
	if b == nil || cap(b.bytes)-len(b.bytes) < len(piece) {
		b = a.next()
	}
	from := len(b.bytes)
	b.bytes = append(b.bytes, piece...)
	b.held++
	return slices.Clip(b.bytes[from:])
}

// release gives the oldest piece back, as keep has returned it.
func (a *arena) release(piece []byte) {
	poison(piece)
	if len(piece) == 0 || !a.fits(piece) {
		return
	}
	oldest := a.used[0]
	if oldest.held--; oldest.held == 0 && len(a.used) > 1 {
		a.leave()
	}
}

// last is the block that is being filled, nil if there is none.
func (a *arena) last() *block {
	if len(a.used) == 0 {
		return nil
	}
	return a.used[len(a.used)-1]
}

// next begins another block.
func (a *arena) next() *block {
	if b := a.last(); b != nil && b.held == 0 {
		a.leave() // all before it are empty, too
	}
	var b *block
	if a.made < a.most || len(a.empty) == 0 {
		a.made++
		b = &block{bytes: make([]byte, 0, a.size)}
	} else {
		b = a.empty[0]
		a.empty = slices.Delete(a.empty, 0, 1)
	}
	a.used = append(a.used, b)
	return b
}

// leave takes the oldest block, which holds nothing, out of use.
func (a *arena) leave() {
	b := a.used[0]
	a.used = slices.Delete(a.used, 0, 1)
	if a.made > a.most {
		a.made--
		return
	}
	b.bytes = b.bytes[:0]
	a.empty = append(a.empty, b)
}
