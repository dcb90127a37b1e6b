package jsonend

import "unicode/utf8"

// maxDepth is how deep objects and arrays may nest, as in encoding/json.
const maxDepth = 10_000

// Edit drops Data[From:To].
type Edit struct{ From, To int }

// Scanner checks JSON against its grammar (RFC 8259) and notes what to drop from
// it. Its methods take the index where a part begins and return the index behind the part, or
// [None] after a fault; they return None for None.
type Scanner struct {
	Data []byte
	// Edits are in order and do not overlap. All white space is one of them.
	Edits []Edit
	// Fault is the first offence against the grammar, at the index At.
	Fault string
	At    int
}

// Fail notes the first fault.
func (s *Scanner) Fail(i int, fault string) int {
	if s.Fault == "" {
		s.Fault, s.At = fault, i
	}
	return None
}

// End is [Scanner.Fail] for data that ends too early.
func (s *Scanner) End() int {
	return s.Fail(len(s.Data), "the text ends too early")
}

// Skip steps over white space. The compact case must stay cheap enough to be
// inlined.
func (s *Scanner) Skip(i int) int {
	if uint(i) < uint(len(s.Data)) && s.Data[i] > ' ' {
		return i
	}
	return s.space(i)
}

//go:noinline
func (s *Scanner) space(i int) int {
	if i == None {
		return None
	}
	from := i
	for i < len(s.Data) && (s.Data[i] == ' ' || s.Data[i] == '\n' || s.Data[i] == '\r' || s.Data[i] == '\t') {
		i++
	}
	if i > from {
		s.Edits = append(s.Edits, Edit{From: from, To: i})
	}
	return i
}

// Drop drops Data[from:to], and with it the edits inside.
func (s *Scanner) Drop(from, to int) {
	s.Forget(from)
	s.Edits = append(s.Edits, Edit{From: from, To: to})
}

// Forget takes back the edits at and after from.
func (s *Scanner) Forget(from int) {
	n := len(s.Edits)
	for n > 0 && s.Edits[n-1].From >= from {
		n--
	}
	s.Edits = s.Edits[:n]
}

// Value checks the value that begins at i, inside depth objects and arrays.
func (s *Scanner) Value(i, depth int) int {
	if uint(i) >= uint(len(s.Data)) {
		return s.End()
	}
	switch c := s.Data[i]; c {
	case '"':
		return s.text(i)
	case '{':
		return s.object(i, depth+1)
	case '[':
		return s.array(i, depth+1)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number(i)
	}
	return s.Fail(i, "a value is expected")
}

// object checks the object that begins at i and is itself at the depth.
func (s *Scanner) object(i, depth int) int {
	if depth > maxDepth {
		return s.Fail(i, "more than 10000 nested levels")
	}
	i = s.Skip(i + 1)
	if uint(i) < uint(len(s.Data)) && s.Data[i] == '}' {
		return i + 1
	}
	for {
		i = s.Skip(s.member(i, depth))
		if uint(i) >= uint(len(s.Data)) {
			return s.End()
		}
		switch s.Data[i] {
		case ',':
			i = s.Skip(i + 1)
		case '}':
			return i + 1
		default:
			return s.Fail(i, "a comma or the end of an object is expected")
		}
	}
}

// member checks a key and its value, which is inside depth objects and arrays. Keys and
// strings are most of what there is to check: they get no call each.
func (s *Scanner) member(i, depth int) int {
	data := s.Data
	if uint(i) >= uint(len(data)) || data[i] != '"' {
		return s.key(i) // which says what is wrong
	}
	if i = quote(data, i+1); uint(i) < uint(len(data)) && data[i] == '"' {
		i++
	} else {
		i = s.textFrom(i)
	}
	if uint(i) < uint(len(data)) && data[i] == ':' {
		i = s.Skip(i + 1)
	} else {
		i = s.colon(i)
	}
	if uint(i) >= uint(len(data)-1) {
		return s.Value(i, depth)
	}
	switch c := data[i]; {
	case c == '"':
		if i = quote(data, i+1); uint(i) < uint(len(data)) && data[i] == '"' {
			return i + 1
		}
		return s.textFrom(i)
	case c == '{' && data[i+1] == '}' && depth < maxDepth: // most of managedFields
		return i + 2
	case c == '{':
		return s.object(i, depth+1)
	}
	return s.Value(i, depth)
}

// key checks a key and its colon; the value begins where it returns.
func (s *Scanner) key(i int) int {
	if uint(i) >= uint(len(s.Data)) {
		return s.End()
	}
	if s.Data[i] != '"' {
		return s.Fail(i, "a key is expected")
	}
	return s.colon(s.text(i))
}

// colon checks the colon behind a key that ended before i.
func (s *Scanner) colon(i int) int {
	i = s.Skip(i)
	if uint(i) >= uint(len(s.Data)) {
		return s.End()
	}
	if s.Data[i] != ':' {
		return s.Fail(i, "a colon is expected")
	}
	return s.Skip(i + 1)
}

// array checks the array that begins at i and is itself at the depth.
func (s *Scanner) array(i, depth int) int {
	if depth > maxDepth {
		return s.Fail(i, "more than 10000 nested levels")
	}
	return s.elements(i, depth, nil)
}

// text checks the string whose opening quote is at i.
func (s *Scanner) text(i int) int {
	i = quote(s.Data, i+1)
	if uint(i) < uint(len(s.Data)) && s.Data[i] == '"' {
		return i + 1
	}
	return s.textFrom(i)
}

// textFrom checks the rest of a string.
func (s *Scanner) textFrom(i int) int {
	for {
		i = plain(s.Data, i)
		if i >= len(s.Data) {
			return s.Fail(i, "a string has no end")
		}
		switch c := s.Data[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i); i == None {
				return None
			}
		case c < ' ':
			return s.Fail(i, "a string holds a control character")
		default:
			r, size := utf8.DecodeRune(s.Data[i:])
			if r == utf8.RuneError && size == 1 {
				return s.Fail(i, "a string is not valid UTF-8")
			}
			i += size
		}
	}
}

// escape checks the escape whose backslash is at i.
func (s *Scanner) escape(i int) int {
	if i+1 < len(s.Data) {
		switch s.Data[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			return i + 2
		case 'u':
			if isHex(s.Data[i+2:]) {
				return i + 6
			}
		}
	}
	return s.Fail(i, "a string holds a bad escape")
}

func (s *Scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.Data) && string(s.Data[i:end]) == word {
		return end
	}
	return s.Fail(i, "a value is expected")
}

func (s *Scanner) number(i int) int {
	const fault = "a number is malformed"
	from := i
	if s.Data[i] == '-' {
		i++
	}
	whole := s.digits(i)
	if whole == i || s.Data[i] == '0' && whole > i+1 {
		return s.Fail(from, fault)
	}
	i = whole
	if i < len(s.Data) && s.Data[i] == '.' {
		fraction := s.digits(i + 1)
		if fraction == i+1 {
			return s.Fail(from, fault)
		}
		i = fraction
	}
	if i < len(s.Data) && (s.Data[i] == 'e' || s.Data[i] == 'E') {
		if i++; i < len(s.Data) && (s.Data[i] == '+' || s.Data[i] == '-') {
			i++
		}
		exponent := s.digits(i)
		if exponent == i {
			return s.Fail(from, fault)
		}
		i = exponent
	}
	return i
}

func (s *Scanner) digits(i int) int {
	for i < len(s.Data) && '0' <= s.Data[i] && s.Data[i] <= '9' {
		i++
	}
	return i
}
