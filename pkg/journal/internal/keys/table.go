package keys

import (
	"iter"

	"github.com/informd/informd/pkg/journal/internal/record"
)

// Entry is the last record of a key.
type Entry struct {
	// Seq is the sequence of the record.
	Seq uint64
	// Segment is the number that the log gave to the file, and Offset and Size the place in it.
	Segment, Offset, Size uint32
	// Count is the number of the record among the events of its key.
	Count uint32
	// Target is the number that the log gave to the target of the event.
	Target uint32
	Kind   record.Kind
	Flags  record.Flags
}

// IsEvent reports whether the last record of the key is the event of a sequence.
func (e *Entry) IsEvent(seq uint64) bool { return e.Kind == record.Event && e.Seq == seq }

// Table maps keys to entries, with 60 to 80 bytes for each. The zero value is an empty table. It is for one
// goroutine at a time.
//
// The entries are in slabs beside the map: a map of entries takes up to 115 bytes for each.
type Table struct {
	numbers map[Hash]uint32
	slabs   [][]Entry
	free    []uint32 // numbers of removed entries
}

const slabSize = 1 << 12

func (t *Table) at(number uint32) *Entry { return &t.slabs[number/slabSize][number%slabSize] }

// Get returns the entry of a key, nil without one. It is valid until the next Set or Remove; its fields may be
// changed.
func (t *Table) Get(k Hash) *Entry {
	if number, found := t.numbers[k]; found {
		return t.at(number)
	}
	return nil
}

// Set adds or replaces the entry of a key.
func (t *Table) Set(k Hash, e Entry) {
	number, found := t.numbers[k]
	if !found {
		number = t.take()
		t.numbers[k] = number
	}
	*t.at(number) = e
}

// take returns the number of an unused entry.
func (t *Table) take() uint32 {
	if n := len(t.free); n > 0 {
		number := t.free[n-1]
		t.free = t.free[:n-1]
		return number
	}
	if t.numbers == nil {
		t.numbers = map[Hash]uint32{}
	}
	number := len(t.numbers) // all entries are in use
	if number%slabSize == 0 {
		t.slabs = append(t.slabs, make([]Entry, slabSize))
	}
	return uint32(number)
}

// Remove removes the entry of a key. Without one it does nothing.
func (t *Table) Remove(k Hash) {
	if number, found := t.numbers[k]; found {
		delete(t.numbers, k)
		t.free = append(t.free, number)
	}
}

// All returns the entries in no order. The table must not be changed meanwhile, except for fields
// of entries.
func (t *Table) All() iter.Seq2[Hash, *Entry] {
	return func(yield func(Hash, *Entry) bool) {
		for k, number := range t.numbers {
			if !yield(k, t.at(number)) {
				return
			}
		}
	}
}
