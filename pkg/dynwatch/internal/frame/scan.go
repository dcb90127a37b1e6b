package frame

import "unicode/utf8"

// maxDepth is how deep objects and arrays may nest, as in encoding/json.
const maxDepth = 10_000

// none is the index that a scanner's methods return after a fault.
const none = -1

// edit replaces data[from:to] by nothing, or by the hash of a secret.
type edit struct {
	from, to int
	secret   *secret
}

// scanner checks JSON against its grammar (RFC 8259) and notes what to change in
// it. Its methods take the index where something begins and return the index
// behind it, or none after a fault; none as an argument gives none back.
type scanner struct {
	data []byte
	// edits are in order and do not overlap. All white space becomes one.
	edits []edit
	// fault is the first offence against the grammar, at the index at; cut says
	// that data merely ended too early.
	fault string
	at    int
	cut   bool
}

// fail notes the first fault.
func (s *scanner) fail(i int, fault string) int {
	if s.fault == "" {
		s.fault, s.at = fault, i
	}
	return none
}

// end is fail for data that ends where it should go on.
func (s *scanner) end() int {
	if s.fault == "" {
		s.cut = true
	}
	return s.fail(len(s.data), "the text ends too early")
}

// skip steps over white space. The compact case must stay cheap enough to be
// inlined.
func (s *scanner) skip(i int) int {
	if uint(i) < uint(len(s.data)) && s.data[i] > ' ' {
		return i
	}
	return s.space(i)
}

//go:noinline
func (s *scanner) space(i int) int {
	if i == none {
		return none
	}
	from := i
	for i < len(s.data) && (s.data[i] == ' ' || s.data[i] == '\n' || s.data[i] == '\r' || s.data[i] == '\t') {
		i++
	}
	if i > from {
		s.edits = append(s.edits, edit{from: from, to: i})
	}
	return i
}

// drop cuts data[from:to] out, together with what was noted inside it.
func (s *scanner) drop(from, to int, replacement *secret) {
	s.forget(from)
	s.edits = append(s.edits, edit{from: from, to: to, secret: replacement})
}

// forget takes back the edits at and after from.
func (s *scanner) forget(from int) {
	n := len(s.edits)
	for n > 0 && s.edits[n-1].from >= from {
		n--
	}
	s.edits = s.edits[:n]
}

// value checks the value that begins at i, inside depth objects and arrays.
func (s *scanner) value(i, depth int) int {
	if uint(i) >= uint(len(s.data)) {
		return s.end()
	}
	switch c := s.data[i]; c {
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
	return s.fail(i, "a value is expected")
}

// object checks the object that begins at i and is itself at the depth.
func (s *scanner) object(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "more than 10000 nested levels")
	}
	i = s.skip(i + 1)
	if uint(i) < uint(len(s.data)) && s.data[i] == '}' {
		return i + 1
	}
	for {
		i = s.skip(s.member(i, depth))
		if uint(i) >= uint(len(s.data)) {
			return s.end()
		}
		switch s.data[i] {
		case ',':
			i = s.skip(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(i, "a comma or the end of an object is expected")
		}
	}
}

// member checks a key and its value, which is inside depth objects and arrays. Keys and
// strings are most of what there is to check: they get no call each.
func (s *scanner) member(i, depth int) int {
	data := s.data
	if uint(i) >= uint(len(data)) || data[i] != '"' {
		return s.key(i) // which says what is wrong
	}
	if i = quote(data, i+1); uint(i) < uint(len(data)) && data[i] == '"' {
		i++
	} else {
		i = s.textFrom(i)
	}
	if uint(i) < uint(len(data)) && data[i] == ':' {
		i = s.skip(i + 1)
	} else {
		i = s.colon(i)
	}
	if uint(i) >= uint(len(data)-1) {
		return s.value(i, depth)
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
	return s.value(i, depth)
}

// key checks a key and its colon; the value begins where it returns.
func (s *scanner) key(i int) int {
	if uint(i) >= uint(len(s.data)) {
		return s.end()
	}
	if s.data[i] != '"' {
		return s.fail(i, "a key is expected")
	}
	return s.colon(s.text(i))
}

// colon checks the colon behind a key that ended before i.
func (s *scanner) colon(i int) int {
	i = s.skip(i)
	if uint(i) >= uint(len(s.data)) {
		return s.end()
	}
	if s.data[i] != ':' {
		return s.fail(i, "a colon is expected")
	}
	return s.skip(i + 1)
}

// array checks the array that begins at i and is itself at the depth.
func (s *scanner) array(i, depth int) int {
	if depth > maxDepth {
		return s.fail(i, "more than 10000 nested levels")
	}
	i = s.skip(i + 1)
	if uint(i) < uint(len(s.data)) && s.data[i] == ']' {
		return i + 1
	}
	for {
		i = s.skip(s.value(i, depth))
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

// text checks the string whose opening quote is at i.
func (s *scanner) text(i int) int {
	i = quote(s.data, i+1)
	if uint(i) < uint(len(s.data)) && s.data[i] == '"' {
		return i + 1
	}
	return s.textFrom(i)
}

// textFrom checks the rest of a string.
func (s *scanner) textFrom(i int) int {
	for {
		i = plain(s.data, i)
		if i >= len(s.data) {
			// Not cut: no string goes on in a next line.
			return s.fail(i, "a string has no end")
		}
		switch c := s.data[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = s.escape(i); i == none {
				return none
			}
		case c < ' ':
			return s.fail(i, "a string holds a control character")
		default:
			r, size := utf8.DecodeRune(s.data[i:])
			if r == utf8.RuneError && size == 1 {
				return s.fail(i, "a string is not valid UTF-8")
			}
			i += size
		}
	}
}

// escape checks the escape whose backslash is at i.
func (s *scanner) escape(i int) int {
	if i+1 < len(s.data) {
		switch s.data[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			return i + 2
		case 'u':
			if hex4(s.data[i+2:]) >= 0 {
				return i + 6
			}
		}
	}
	return s.fail(i, "a string holds a bad escape")
}

func (s *scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.data) && string(s.data[i:end]) == word {
		return end
	}
	return s.fail(i, "a value is expected")
}

func (s *scanner) number(i int) int {
	const fault = "a number is malformed"
	from := i
	if s.data[i] == '-' {
		i++
	}
	whole := s.digits(i)
	if whole == i || s.data[i] == '0' && whole > i+1 {
		return s.fail(from, fault)
	}
	i = whole
	if i < len(s.data) && s.data[i] == '.' {
		fraction := s.digits(i + 1)
		if fraction == i+1 {
			return s.fail(from, fault)
		}
		i = fraction
	}
	if i < len(s.data) && (s.data[i] == 'e' || s.data[i] == 'E') {
		if i++; i < len(s.data) && (s.data[i] == '+' || s.data[i] == '-') {
			i++
		}
		exponent := s.digits(i)
		if exponent == i {
			return s.fail(from, fault)
		}
		i = exponent
	}
	return i
}

func (s *scanner) digits(i int) int {
	for i < len(s.data) && '0' <= s.data[i] && s.data[i] <= '9' {
		i++
	}
	return i
}
