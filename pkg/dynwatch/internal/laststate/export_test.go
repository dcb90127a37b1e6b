package laststate

import "unsafe"

// Sum is what Bytes is to be, counted anew: states are all that the store has made and that
// were not deleted.
func (s *Store) Sum(states []*State) uint64 {
	sum := s.candidates.bytes() + cap(s.best) + cap(s.spare)
	dictionaries := make(map[*dictionary]bool)
	for _, d := range s.dictionaries {
		dictionaries[d] = true
	}
	for _, state := range states {
		sum += int(unsafe.Sizeof(*state)) + len(state.block)
		if state.dictionary != nil {
			dictionaries[state.dictionary] = true
		}
	}
	for d := range dictionaries {
		sum += d.bytes()
	}
	return uint64(sum)
}
