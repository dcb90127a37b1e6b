package wal

import (
	"iter"

	"github.com/informd/informd/pkg/journal/internal/record"
)

// Last is the last record of a key. Without one it is zero.
type Last struct {
	// Seq is the sequence of the record.
	Seq uint64
	// Segment is the number of the file, and Offset and Size the place in it.
	Segment, Offset, Size uint32
	// Count is the number of the record among the events of its key.
	Count uint32
	// Target is the number that the log gave to the target of the event.
	Target uint32
	Kind   record.Kind
	Flags  record.Flags
}

// IsEvent reports whether it is the event of a sequence.
func (l Last) IsEvent(seq uint64) bool { return l.Kind == record.Event && l.Seq == seq }

func (l Last) exists() bool { return l.Kind != 0 }

func (l Last) place() place { return place{l.Segment, int64(l.Offset)} }

// table has the last record of each key, with 60 to 80 bytes for each. The zero value is empty.
//
// The records are in slabs beside the map: a map of them takes 73 to 117 bytes for each.
type table struct {
	numbers map[record.Hash]uint32
	slabs   [][]Last
	free    []uint32 // numbers of removed records
}

const slabSize = 1 << 12

func (t *table) at(number uint32) *Last { return &t.slabs[number/slabSize][number%slabSize] }

// get returns the last record of a key, zero without one.
func (t *table) get(k record.Hash) Last {
	if number, found := t.numbers[k]; found {
		return *t.at(number)
	}
	return Last{}
}

func (t *table) set(k record.Hash, last Last) {
	number, found := t.numbers[k]
	if !found {
		number = t.take()
		t.numbers[k] = number
	}
	*t.at(number) = last
}

// take returns the number of an unused place.
func (t *table) take() uint32 {
	if n := len(t.free); n > 0 {
		number := t.free[n-1]
		t.free = t.free[:n-1]
		return number
	}
	if t.numbers == nil {
		t.numbers = map[record.Hash]uint32{}
	}
	number := len(t.numbers) // all places are in use
	if number%slabSize == 0 {
		t.slabs = append(t.slabs, make([]Last, slabSize))
	}
	return uint32(number)
}

func (t *table) remove(k record.Hash) {
	if number, found := t.numbers[k]; found {
		delete(t.numbers, k)
		t.free = append(t.free, number)
	}
}

// all returns the records in no order. The table must not be changed meanwhile.
func (t *table) all() iter.Seq2[record.Hash, Last] {
	return func(yield func(record.Hash, Last) bool) {
		for k, number := range t.numbers {
			if !yield(k, *t.at(number)) {
				return
			}
		}
	}
}
