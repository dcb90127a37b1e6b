package keys

import (
	"encoding/binary"
	"iter"

	"github.com/informd/informd/pkg/journal/internal/record"
)

// Entry is the last record of a key.
type Entry struct {
	Key Hash
	// Seq is the sequence of the record.
	Seq uint64
	// Segment is the number that the log gave to the file, and Offset and Size the place in it.
	Segment, Offset, Size uint32
	// Count is the number of the record among the events of its key.
	Count uint32
	// Target is the number that the log gave to the target of the event.
	Target uint16
	Kind   record.Kind
	Flags  record.Flags
}

// IsEvent reports whether the last record of the key is the event of a sequence.
func (e *Entry) IsEvent(seq uint64) bool { return e.Kind == record.Event && e.Seq == seq }

// Table maps keys to entries, with about 55 bytes for each. The zero value is an empty table. It
// is for one goroutine at a time.
//
// Entries are in slabs, which never move, and a table of slots with linear probing leads to them.
// So growing copies 4 bytes for each entry, and no pointer is for the garbage collector to follow
// but those of the slabs.
type Table struct {
	slabs [][]Entry
	used  int      // entries that were ever given out
	free  []uint32 // numbers of removed entries
	slots []uint32 // the number of an entry, from 1; 0 is free
	held  int
}

const (
	slabSize  = 1 << 12
	leastSlot = 1 << 6
)

// Len is the number of keys.
func (t *Table) Len() int { return t.held }

func (t *Table) at(number uint32) *Entry { return &t.slabs[number/slabSize][number%slabSize] }

// start is the first slot of a key. The hash is random, so that any bits of it serve.
func (t *Table) start(k Hash) uint32 {
	return binary.LittleEndian.Uint32(k[:]) & uint32(len(t.slots)-1)
}

func (t *Table) next(slot uint32) uint32 {
	return (slot + 1) & uint32(len(t.slots)-1)
}

// find returns the slot of a key, or the free one where it belongs.
func (t *Table) find(k Hash) (slot uint32, found bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	for slot = t.start(k); t.slots[slot] != 0; slot = t.next(slot) {
		if t.at(t.slots[slot]-1).Key == k {
			return slot, true
		}
	}
	return slot, false
}

// Get returns the entry of a key, nil without one. It is valid until the next Set or Remove; its
// fields but the key may be changed.
func (t *Table) Get(k Hash) *Entry {
	if slot, found := t.find(k); found {
		return t.at(t.slots[slot] - 1)
	}
	return nil
}

// Set adds or replaces the entry of its key.
func (t *Table) Set(e Entry) {
	if (t.held+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	slot, found := t.find(e.Key)
	if !found {
		t.slots[slot] = t.take() + 1
		t.held++
	}
	*t.at(t.slots[slot] - 1) = e
}

// take returns the number of an unused entry.
func (t *Table) take() uint32 {
	if n := len(t.free); n > 0 {
		number := t.free[n-1]
		t.free = t.free[:n-1]
		return number
	}
	if t.used%slabSize == 0 {
		t.slabs = append(t.slabs, make([]Entry, slabSize))
	}
	t.used++
	return uint32(t.used - 1)
}

func (t *Table) grow() {
	old := t.slots
	t.slots = make([]uint32, max(leastSlot, 2*len(old)))
	for _, number := range old {
		if number == 0 {
			continue
		}
		slot, _ := t.find(t.at(number - 1).Key)
		t.slots[slot] = number
	}
}

// Remove removes the entry of a key. Without one it does nothing.
func (t *Table) Remove(k Hash) {
	hole, found := t.find(k)
	if !found {
		return
	}
	number := t.slots[hole]
	*t.at(number - 1) = Entry{}
	t.free = append(t.free, number-1)
	t.held--
	t.slots[hole] = 0
	// Entries behind the hole move into it if it lies on their way.
	for slot := t.next(hole); t.slots[slot] != 0; slot = t.next(slot) {
		home := t.start(t.at(t.slots[slot] - 1).Key)
		mask := uint32(len(t.slots) - 1)
		if (slot-home)&mask >= (slot-hole)&mask {
			t.slots[hole], t.slots[slot] = t.slots[slot], 0
			hole = slot
		}
	}
}

// All returns the entries in no order. The table must not be changed meanwhile, except for fields
// of entries.
func (t *Table) All() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, number := range t.slots {
			if number != 0 && !yield(t.at(number-1)) {
				return
			}
		}
	}
}
