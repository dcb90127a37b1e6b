package journal

import (
	"bytes"
	"slices"
)

// blockSize is the size of a journal's blocks.
const blockSize = 256 << 10

// keptSize is the memory that a journal never gives back.
const keptSize = 8 << 20

// arena holds the Data of the events of a [Memory]. It fills one block after the other, and
// reuses empty blocks, the longest empty one first. So a journal of the usual size reuses the
// memory of a full one: a stopped sink does not make the process larger, and a steady
// stream needs no garbage collection. A larger journal allocates and frees further blocks.
// Larger pieces have separate memory.
//
// Pieces must be released in the order in which they were kept. A piece in a block is
// overwritten some time after its release.
type arena struct {
	size int // of a block
	// most is the number of blocks that are never freed, made the current number. If no
	// block is empty, the arena allocates more: at most a third more, and two.
	most, made int
	// used are the blocks with pieces, oldest first, and last the block that is being filled.
	// empty are the others, first the one to fill next.
	used, empty []*block
}

// block is filled up to its length.
type block struct {
	bytes []byte
	held  int // the number of its pieces that are not released
}

// newArena returns an arena for up to capacity bytes in blocks of a size. It allocates blocks
// on demand.
func newArena(capacity uint64, size int) arena {
	const least = 2
	return arena{size: size, most: max(least, int(min(capacity, keptSize)/uint64(size)))}
}

// fits reports whether a block can hold the piece. At least three quarters of a block are
// used when the next block begins.
func (a *arena) fits(piece []byte) bool { return len(piece) <= a.size/4 }

// keep returns a copy of a piece without spare capacity.
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

// release frees the oldest piece, as keep has returned it.
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

// last returns the block that is being filled, or nil.
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

// leave removes the oldest block, which is empty, from the used ones.
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
