package when

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

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

// endOfBrackets returns the index behind the object or list that begins at i. It is
// what reading a member costs, a pass over all that comes before it, and so takes
// eight bytes at a time.
func endOfBrackets(text []byte, i int) (end int, ok bool) {
	var n nesting
	for i < len(text) {
		if i+8 <= len(text) && n.eight(word(text[i:])) {
			i += 8
			continue
		}
		for stop := i + 8; i < stop && i < len(text); i++ {
			switch c := text[i]; {
			case n.inside && c == '\\':
				i++ // what is escaped
			case n.ends(c):
				return i + 1, true
			}
		}
	}
	return len(text), false
}

// nesting is where in a value one is: below so many brackets, or inside of a string.
type nesting struct {
	depth  int
	inside bool
}

// ends takes one byte, which is not escaped, and reports whether the value ends with it.
func (n *nesting) ends(c byte) bool {
	switch {
	case c == '"':
		n.inside = !n.inside
	case n.inside:
	case c == '{', c == '[':
		n.depth++
	case c == '}', c == ']':
		n.depth--
		return n.depth == 0
	}
	return false
}

// eight takes eight bytes, unless they have an escape or the end may be among them.
func (n *nesting) eight(w eight) (taken bool) {
	if w.equal('\\') != 0 {
		return false
	}
	// Each bit is a byte: set from a quote that opens up to the one that closes.
	within := prefix(w.equal('"'))
	if n.inside {
		within = ^within
	}
	lower := w | word8(' ') // of both kinds of brackets
	opened, closed := lower.equal('{')&^within, bits.OnesCount8(lower.equal('}')&^within)
	if closed > 0 && n.depth <= closed {
		return false
	}
	n.depth += bits.OnesCount8(opened) - closed
	n.inside = within&0x80 != 0
	return true
}

// eight is eight bytes of a text, the first one lowest.
type eight uint64

func word(text []byte) eight { return eight(binary.LittleEndian.Uint64(text)) }

// word8 is eight times the same byte.
func word8(c byte) eight { return eight(c) * 0x0101010101010101 }

// equal has a bit for every byte that is c.
func (w eight) equal(c byte) uint8 {
	const high, low = 0x8080808080808080, 0x7f7f7f7f7f7f7f7f
	w ^= word8(c)
	zero := ^((w&low + low) | w) & high
	return uint8(zero >> 7 * 0x0102040810204080 >> 56)
}

// prefix sets every bit that has an odd number of set ones up to itself.
func prefix(b uint8) uint8 {
	b ^= b << 1
	b ^= b << 2
	return b ^ b<<4
}
