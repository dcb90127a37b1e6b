package change

import "slices"

// few is up to how many keys are held one against the other, which takes no memory.
const few = 32

// side is one of the two objects, and the children of what is compared just now.
type side struct {
	data     []byte
	children []child // those of outer values are before those of inner ones
}

// open returns where the first child in a value begins, or the value's end.
func (s *side) open(in span) (int, bool) {
	i := in.from + 1
	if i < in.end && s.data[i] == closing(s.data[in.from]) {
		return i + 1, i+1 == in.end
	}
	return i, i < in.end
}

// behind returns where the child begins that follows on what ends at i, or the value's
// end.
func (s *side) behind(i int, in span) (int, bool) {
	switch {
	case i >= in.end:
		return i, false
	case s.data[i] == ',':
		return i + 1, i+1 < in.end
	default:
		return i + 1, i+1 == in.end && s.data[i] == closing(s.data[in.from])
	}
}

// closing is what ends what opens.
func closing(open byte) byte { return open + 2 } // { and }, [ and ]

// add scans the child that begins at i and returns what behind does.
func (s *side) add(i int, in span, array bool) (int, bool) {
	c, ok := next(s.data, i, array)
	if !ok {
		return i, false
	}
	s.children = append(s.children, c)
	return s.behind(c.end, in)
}

// dropRepeated leaves of the members from bottom on the last one of each key.
func (s *side) dropRepeated(bottom int) {
	all := s.children[bottom:]
	if !s.repeats(all) {
		return
	}
	seen := make(map[string]bool, len(all))
	to := len(all)
	for _, c := range slices.Backward(all) {
		if name := string(c.key(s.data)); !seen[name] {
			seen[name] = true
			to--
			all[to] = c
		}
	}
	s.children = s.children[:bottom+copy(all, all[to:])]
}

// repeats reports whether two members have the same key.
func (s *side) repeats(all []child) bool {
	if len(all) <= few {
		for i, c := range all {
			for _, other := range all[:i] {
				if isKey(s.data, c, s.data, other) {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, len(all))
	for _, c := range all {
		seen[string(c.key(s.data))] = struct{}{}
	}
	return len(seen) < len(all)
}
