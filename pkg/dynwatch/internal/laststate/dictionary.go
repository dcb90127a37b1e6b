package laststate

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/klauspost/compress/s2"
)

const (
	// shortest and longest are the sizes of objects that dictionaries are for: of less
	// there is nothing to gain, and s2 can take no more into one.
	shortest = 128
	longest  = s2.MaxDictSize

	// tableSize is what s2 keeps beside a dictionary.
	tableSize = 32 << 10

	// fewStates need no dictionary. For more there is one, and one more for every share of
	// states, so that what dictionaries take is little beside them.
	fewStates        = 32
	share            = 256
	mostDictionaries = 32

	// idle is how few states a dictionary has that makes room for another one.
	idle = 16
)

// dictionary is an object that others are much like.
type dictionary struct {
	object []byte
	code   *s2.Dict
	states *State // that need it
	count  int
}

func newDictionary(object []byte) *dictionary {
	own := append(make([]byte, 0, len(object)+16), object...) // s2 copies it otherwise
	return &dictionary{object: own, code: s2.MakeDictManual(own, 0)}
}

func (d *dictionary) bytes() int { return cap(d.object) + tableSize }

func (d *dictionary) enter(state *State) {
	state.dictionary, state.next = d, d.states
	if d.states != nil {
		d.states.prev = state
	}
	d.states = state
	d.count++
}

func (d *dictionary) leave(state *State) {
	if state.prev != nil {
		state.prev.next = state.next
	} else {
		d.states = state.next
	}
	if state.next != nil {
		state.next.prev = state.prev
	}
	state.dictionary, state.next, state.prev = nil, nil, nil
	d.count--
}

// first makes the dictionary the one that is tried first.
func (s *Store) first(d *dictionary) {
	if i := slices.Index(s.dictionaries, d); i > 0 {
		copy(s.dictionaries[1:], s.dictionaries[:i])
		s.dictionaries[0] = d
	}
}

// dropUnused forgets a dictionary that no state needs any more.
func (s *Store) dropUnused(d *dictionary) {
	if d == nil || d.count > 0 {
		return
	}
	if i := slices.Index(s.dictionaries, d); i >= 0 {
		s.dictionaries = slices.Delete(s.dictionaries, i, i+1)
		s.bytes -= d.bytes()
	}
}

// room reports whether there may be one dictionary more. It dissolves one that few states
// need if that makes room.
func (s *Store) room() bool {
	most := min(1+s.states/share, mostDictionaries)
	if len(s.dictionaries) < most {
		return true
	}
	least := slices.MinFunc(s.dictionaries, byCount)
	if least.count >= idle {
		return false
	}
	s.dissolve(least)
	return len(s.dictionaries) < most
}

// dissolve brings the states that need the dictionary into another form: with the one that
// most of the others need, which is one for all sorts of objects, or without.
func (s *Store) dissolve(d *dictionary) {
	s.dictionaries = slices.DeleteFunc(s.dictionaries, func(other *dictionary) bool { return other == d })
	s.bytes -= d.bytes()
	var other *dictionary
	if len(s.dictionaries) > 0 {
		other = slices.MaxFunc(s.dictionaries, byCount)
	}
	var object []byte
	for d.states != nil {
		state := d.states
		object = s.Append(object[:0], state)
		d.leave(state)
		s.spare = encode(s.spare, other, object)
		s.bytes += len(s.spare) - len(state.block)
		state.block = bytes.Clone(s.spare)
		if other != nil {
			other.enter(state)
		}
	}
}

func byCount(a, b *dictionary) int { return cmp.Compare(a.count, b.count) }

// isWorth reports whether a block is that much shorter than best that its dictionary is to
// be one. The first one may be of some use to many, and is replaced like all others.
func (s *Store) isWorth(block, object []byte) bool {
	return isGood(block, object) || len(s.dictionaries) == 0 && len(block) <= len(s.best)*3/4
}

// candidates are objects that no dictionary fits, and that become one if another object is
// like them. The first is the newest, for siblings follow on each other in lists; the second
// stays for a while, for they do not in watches.
type candidates struct {
	all      [2]*dictionary
	proposed int
}

// lasts is how many objects the second candidate is held against.
const lasts = 64

func (c *candidates) bytes() int {
	size := 0
	for _, d := range c.all {
		if d != nil {
			size += d.bytes()
		}
	}
	return size
}

func (c *candidates) add(d *dictionary) {
	i := 0
	if c.proposed%lasts == 0 {
		i = 1
	}
	c.all[i] = d
	c.proposed++
}

// propose makes a dictionary of a candidate that is good for the object, and best with it,
// or else a candidate of the object. It returns the dictionary.
func (s *Store) propose(object []byte) *dictionary {
	if s.states < fewStates {
		return nil
	}
	for i, d := range s.candidates.all {
		if d == nil {
			continue
		}
		if s.spare = encode(s.spare, d, object); s.isWorth(s.spare, object) && s.room() {
			s.best = encode(s.best, d, object) // once more, for making room may have used spare
			s.candidates.all[i] = nil
			s.dictionaries = slices.Insert(s.dictionaries, 0, d)
			s.made++
			s.bytes += d.bytes()
			return d
		}
	}
	s.candidates.add(newDictionary(object))
	return nil
}
