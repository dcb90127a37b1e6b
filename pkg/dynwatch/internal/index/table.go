package index

// table finds entries by a hash of their name: a hash table with open addressing.
// Each cell has a slot, plus one so that 0 is an empty cell, and beside it the hash,
// so that neither a look-up nor growing reads other entries.
type table struct {
	cells []uint64 // a power of two of them, or none
	full  int
}

// smallTable is the size of a table with few entries: most targets have few.
const smallTable = 16

func cellOf(hash, slot uint32) uint64 { return uint64(hash)<<32 | uint64(slot+1) }

// probe walks over the cells in which a hash may be.
type probe struct {
	table *table
	hash  uint32
	at    int
}

func (t *table) begin(hash uint32) probe {
	if len(t.cells) == 0 {
		return probe{table: t}
	}
	return probe{table: t, hash: hash, at: t.home(hash)}
}

// home is the cell of a hash, unless that is taken.
func (t *table) home(hash uint32) int { return int(hash) & (len(t.cells) - 1) }

func (p *probe) next() { p.at = (p.at + 1) & (len(p.table.cells) - 1) }

// slot returns the next slot that was put under the hash, false if there is none.
func (p *probe) slot() (uint32, bool) {
	if len(p.table.cells) == 0 {
		return 0, false
	}
	for ; ; p.next() {
		switch c := p.table.cells[p.at]; {
		case c == 0:
			return 0, false
		case uint32(c>>32) == p.hash:
			return uint32(c) - 1, true
		}
	}
}

// put adds a slot.
func (t *table) put(hash, slot uint32) {
	if (t.full+1)*8 > len(t.cells)*7 {
		t.grow()
	}
	t.insert(cellOf(hash, slot))
	t.full++
}

func (t *table) insert(cell uint64) {
	i := t.home(uint32(cell >> 32))
	for t.cells[i] != 0 {
		i = (i + 1) & (len(t.cells) - 1)
	}
	t.cells[i] = cell
}

func (t *table) grow() {
	old := t.cells
	t.cells = make([]uint64, max(2*len(old), smallTable))
	for _, c := range old {
		if c != 0 {
			t.insert(c)
		}
	}
}

// remove removes a slot. The cells behind it move up, so that no cell is marked as deleted:
// with such marks, a table slows down as entries come and go.
func (t *table) remove(hash, slot uint32) {
	mask := len(t.cells) - 1
	i := t.home(hash)
	for t.cells[i] != cellOf(hash, slot) {
		i = (i + 1) & mask
	}
	for j := i; ; {
		j = (j + 1) & mask
		c := t.cells[j]
		if c == 0 {
			break
		}
		// It may move if its home is not behind the hole.
		if (j-t.home(uint32(c>>32)))&mask >= (j-i)&mask {
			t.cells[i] = c
			i = j
		}
	}
	t.cells[i] = 0
	t.full--
}
