package laststate

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/klauspost/compress/s2"
)

// Store keeps states of objects. Its zero value is empty. It is for one goroutine, and so
// are the states that it makes.
type Store struct {
	dictionaries []*dictionary // the last one that fitted is the first
	made         uint64        // how many dictionaries there have been
	candidates   candidates
	states       int
	bytes        int // of the states, and of the dictionaries

	// best is the shortest block that the state in work was brought to; spare is where
	// the next attempt goes.
	best, spare []byte
}

// State is the state of one object in a store.
type State struct {
	block      []byte
	dictionary *dictionary // nil if the block needs none
	next, prev *State      // those that need the same one
	// searched is how many dictionaries there had been when one was last looked for.
	searched uint64
}

// keptScratch is how much room for blocks a store keeps from one object to the next.
const keptScratch = 256 << 10

// Put keeps an object, of which it keeps no reference, and returns its state. That is
// old, which is overwritten, if the store has made old for the same object before, and a
// new one if old is nil.
func (s *Store) Put(old *State, object []byte) *State {
	state := old
	if state == nil {
		state = &State{}
		s.states++
		s.bytes += int(unsafe.Sizeof(State{}))
	}
	used := state.dictionary
	fits := s.compress(state, object)
	s.leave(state)
	s.bytes += len(s.best) - len(state.block)
	state.block = bytes.Clone(s.best)
	if fits != nil {
		fits.enter(state)
		s.first(fits)
	}
	s.dropUnused(used)
	if max(cap(s.best), cap(s.spare)) > keptScratch {
		s.best, s.spare = nil, nil
	}
	return state
}

// Append appends the object of a state of this store to dst.
func (s *Store) Append(dst []byte, state *State) []byte {
	size, err := s2.DecodedLen(state.block)
	if err != nil {
		return dst // which does not happen: nobody else writes blocks
	}
	from := len(dst)
	dst = slices.Grow(dst, size)[:from+size]
	if state.dictionary != nil {
		_, err = state.dictionary.code.Decode(dst[from:], state.block)
	} else {
		_, err = s2.Decode(dst[from:], state.block)
	}
	if err != nil {
		return dst[:from]
	}
	return dst
}

// Delete ends a state of this store, which must not be used any more.
func (s *Store) Delete(state *State) {
	used := state.dictionary
	s.leave(state)
	s.dropUnused(used)
	s.states--
	s.bytes -= int(unsafe.Sizeof(State{})) + len(state.block)
	*state = State{}
}

// Bytes is how much memory the store takes, about.
func (s *Store) Bytes() uint64 {
	return uint64(max(0, s.bytes+s.candidates.bytes()+cap(s.best)+cap(s.spare)))
}

// leave takes a state from its dictionary.
func (s *Store) leave(state *State) {
	if state.dictionary != nil {
		state.dictionary.leave(state)
	}
}

// compress makes best of the object and returns the dictionary that it needs.
func (s *Store) compress(state *State, object []byte) *dictionary {
	if len(object) < shortest || len(object) > longest {
		s.best = encode(s.best, nil, object)
		return nil
	}
	first := state.dictionary
	if state.block == nil && len(s.dictionaries) > 0 {
		first = s.dictionaries[0]
	}
	s.best = encode(s.best, first, object)
	if isGood(s.best, object) {
		return first
	}
	if before := len(state.block); state.searched == s.made && len(s.best) <= before+before/4 {
		return first // a search found no better one for such an object
	}
	fits := s.search(first, object)
	if !isGood(s.best, object) {
		d := s.propose(object)
		switch {
		case d != nil:
			fits = d
		case fits != nil && !slices.Contains(s.dictionaries, fits): // it went to make room, and that was not enough
			s.best = encode(s.best, nil, object)
			fits = s.search(nil, object)
		}
	}
	state.searched = s.made
	return fits
}

// search tries all dictionaries but the first, which was, and none. It returns that of best.
func (s *Store) search(first *dictionary, object []byte) *dictionary {
	fits := first
	for _, d := range s.dictionaries {
		if d != first && s.try(d, object) {
			if fits = d; isGood(s.best, object) {
				return fits
			}
		}
	}
	if first != nil && s.try(nil, object) {
		fits = nil
	}
	return fits
}

// try makes best of the object if that is shorter with the dictionary.
func (s *Store) try(d *dictionary, object []byte) bool {
	s.spare = encode(s.spare, d, object)
	if len(s.spare) >= len(s.best) {
		return false
	}
	s.best, s.spare = s.spare, s.best
	return true
}

// encode returns the block of an object, in dst if there is room.
func encode(dst []byte, d *dictionary, object []byte) []byte {
	dst = slices.Grow(dst[:0], max(0, s2.MaxEncodedLen(len(object))))
	dst = dst[:cap(dst)]
	if d != nil {
		return d.code.Encode(dst, object)
	}
	return s2.EncodeBetter(dst, object)
}

// isGood reports whether a block is as short as that of an object is that has a sibling
// for a dictionary.
func isGood(block, object []byte) bool { return len(block) <= len(object)/8+64 }
