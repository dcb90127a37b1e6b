package frame

// visitor checks one member's value, which begins at value, and returns the index
// behind it and whether the member is to be dropped.
type visitor func(key []byte, value int) (end int, drop bool)

// walk is object for an object whose members matter. It returns how many members
// stay, too. A key is given to visit with its escapes decoded. It is for the few
// objects at the top and does not count their depth.
func (s *scanner) walk(i int, visit visitor) (end, kept int) {
	i = s.skip(i + 1)
	if uint(i) < uint(len(s.data)) && s.data[i] == '}' {
		return i + 1, 0
	}
	last := i // behind the last member that stays, or where a first one would begin
	for {
		from, value := i, s.key(i)
		if value == none {
			return none, kept
		}
		behind, drop := visit(s.decoded(from), value)
		i = s.skip(behind)
		if uint(i) >= uint(len(s.data)) {
			return s.end(), kept
		}
		c := s.data[i]
		if c != ',' && c != '}' {
			return s.fail(i, "a comma or the end of an object is expected"), kept
		}
		next := i + 1
		switch {
		case !drop:
			last = behind
			kept++
		case kept > 0 || c == '}': // with the comma before it, if there is one
			s.drop(last, i, nil)
			last = i
		}
		if c == ',' {
			next = s.skip(next)
		}
		if drop && kept == 0 && c == ',' { // with the comma behind it
			s.drop(last, next, nil)
			last = next
		}
		if c == '}' {
			return next, kept
		}
		i = next
	}
}

// elements is array for an array whose elements matter: visit checks the one that begins
// at the index and returns the index behind it. Like walk it does not count depth. array
// does without it: a call through visit for each element of every array makes normalising
// a Pod 2 to 4 % slower.
func (s *scanner) elements(i int, visit func(i int) (end int)) int {
	i = s.skip(i + 1)
	if uint(i) < uint(len(s.data)) && s.data[i] == ']' {
		return i + 1
	}
	for {
		i = s.skip(visit(i))
		if uint(i) >= uint(len(s.data)) {
			return s.end()
		}
		switch s.data[i] {
		case ',':
			i = s.skip(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(i, "a comma or the end of an array is expected")
		}
	}
}

// decoded returns the text of the string whose opening quote is at i, which was
// checked before. It aliases data if the string has no escapes.
func (s *scanner) decoded(i int) []byte {
	end := i + 1
	escapes := false
	for {
		end = plain(s.data, end)
		switch c := s.data[end]; {
		case c == '"':
			if text := s.data[i+1 : end]; !escapes {
				return text
			}
			return unescape(make([]byte, 0, end-i), s.data[i+1:end])
		case c == '\\':
			escapes = true
			end += 2
		default:
			end++
		}
	}
}
