// Package jsonend finds the ends of values in JSON. A [Scanner] checks the grammar in one pass over the
// bytes, and notes what to drop; it decodes nothing but the keys that its callers look at. The functions
// are for JSON that was checked, without white space outside of strings, and decode and write strings:
// for other input the ends are undefined, or [None], but in bounds.
//
// It imports the standard library only. The functions have no state and are safe for concurrent use.
package jsonend

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// None is the end of what has none in the data, and what a [Scanner] returns after a fault.
const None = -1

// One byte of a word for each of eight bytes of text.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// Text returns the index behind the string whose opening quote is at i, and whether it
// has escapes.
func Text(data []byte, i int) (end int, escapes bool) {
	i++
	for {
		for ; i+8 <= len(data); i += 8 {
			w := binary.LittleEndian.Uint64(data[i:])
			quotes, backslashes := w^'"'*ones, w^'\\'*ones
			// The lowest mark is sure: a subtraction borrows from higher bytes only.
			if m := ((quotes-ones)&^quotes | (backslashes-ones)&^backslashes) & highs; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		if uint(i) >= uint(len(data)) {
			return None, escapes
		}
		switch data[i] {
		case '"':
			return i + 1, escapes
		case '\\':
			escapes = true
			i++
		}
		i++
	}
}

// Value returns the index behind the value that begins at i, which is not negative.
func Value(data []byte, i int) int {
	if i >= len(data) {
		return None
	}
	switch data[i] {
	case '"':
		end, _ := Text(data, i)
		return end
	case '{', '[':
		return nested(data, i)
	}
	from := i
	for i < len(data) && data[i] != ',' && data[i] != '}' && data[i] != ']' {
		i++
	}
	if i == from {
		return None
	}
	return i
}

// nested returns the index behind the object or array that begins at i. A string
// without an end ends the loop as well: None is beyond everything when it has no sign.
func nested(data []byte, i int) int {
	var n nesting
	for uint(i) < uint(len(data)) {
		if i+8 <= len(data) && n.word(binary.LittleEndian.Uint64(data[i:])) {
			i += 8
			continue
		}
		if n.inside {
			i, _ = Text(data, i-1)
			n.inside = false
		}
		for stop := i + 8; uint(i) < uint(len(data)) && i < stop; {
			switch data[i] {
			case '"':
				i, _ = Text(data, i)
				continue
			case '{', '[':
				n.depth++
			case '}', ']':
				if n.depth--; n.depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	return None
}

// nesting is where in a value one is: below so many brackets, or inside of a string.
type nesting struct {
	depth  int
	inside bool
}

// word takes eight bytes, unless they have an escape or the end may be among them.
func (n *nesting) word(w uint64) (taken bool) {
	if equal(w, '\\') != 0 {
		return false
	}
	// Each bit is a byte: set from a quote that opens up to the one that closes.
	within := equal(w, '"')
	within ^= within << 1
	within ^= within << 2
	within ^= within << 4
	if n.inside {
		within = ^within
	}
	lower := w | ' '*ones // of both kinds of brackets
	opened, closed := equal(lower, '{')&^within, bits.OnesCount8(equal(lower, '}')&^within)
	if closed > 0 && n.depth <= closed {
		return false
	}
	n.depth += bits.OnesCount8(opened) - closed
	n.inside = within&0x80 != 0
	return true
}

// equal has a bit for each of eight bytes that is c, the first one lowest.
func equal(w uint64, c byte) uint8 {
	const low = ^uint64(highs)
	w ^= uint64(c) * ones
	zero := ^((w&low + low) | w) & highs
	return uint8(zero >> 7 * 0x0102040810204080 >> 56)
}

// Decode returns the text of a JSON string with its quotes, and false for any other value. It
// aliases value if that has no escapes.
func Decode(value []byte) ([]byte, bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1], true
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return value, true // which does not happen: it is valid
	}
	return []byte(s), true
}

// Key returns the decoded key whose opening quote is at i, and where its value begins. It aliases data if
// the key has no escapes.
func Key(data []byte, i int) (key []byte, value int) {
	end, escapes := Text(data, i)
	if key = data[i+1 : end-1]; escapes {
		key, _ = Decode(data[i:end])
	}
	return key, end + 1
}

// AppendString appends text as a JSON string. Bytes that are not UTF-8 become U+FFFD, as in
// encoding/json.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	return append(AppendInside(append(dst, '"'), text), '"')
}

// AppendInside is AppendString without the quotes.
func AppendInside[T string | []byte](dst []byte, text T) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(string(text[i:min(len(text), i+utf8.UTFMax)]))
			dst = utf8.AppendRune(dst, r)
			i += size - 1
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
