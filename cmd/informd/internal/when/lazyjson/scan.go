package lazyjson

import "bytes"

// skipSpace returns the index of the first byte from i on that is no white space.
func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// endOf returns the index behind the value that begins at i. It counts brackets and
// looks into nothing, so that what is inside may still not be JSON.
func endOf(text []byte, i int) (end int, ok bool) {
	if i >= len(text) {
		return i, false
	}
	switch text[i] {
	case '"':
		return endOfString(text, i)
	case '{', '[':
		return endOfBrackets(text, i)
	}
	end = i
	for end < len(text) && !delimits(text[end]) {
		end++
	}
	return end, end > i
}

// delimits reports whether a number or literal ends before c.
func delimits(c byte) bool {
	switch c {
	case ',', ':', ']', '}', '[', '{', '"', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

// endOfString returns the index behind the string whose quote is at i.
func endOfString(text []byte, i int) (end int, ok bool) {
	for j := i + 1; ; {
		n := bytes.IndexByte(text[j:], '"')
		if n < 0 {
			return len(text), false
		}
		j += n
		// An even number of backslashes are escapes of each other.
		slashes := 0
		for text[j-1-slashes] == '\\' {
			slashes++
		}
		j++
		if slashes%2 == 0 {
			return j, true
		}
	}
}

// endOfBrackets returns the index behind the object or list that begins at i.
func endOfBrackets(text []byte, i int) (end int, ok bool) {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			if i, ok = endOfString(text, i); !ok {
				return i, false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
		i++
	}
	return i, false
}
