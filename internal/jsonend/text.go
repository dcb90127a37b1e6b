package jsonend

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// marks sets the high bit of each of the eight bytes at data[i] that is not plain text
// inside a JSON string: a quote, a backslash, a control character or a byte outside ASCII.
// Only the lowest mark is sure: the subtractions can borrow from a byte above one that is
// marked, never from one below. The quote and the control characters take one of them: a
// flip of one bit brings the quote next to those, and lets no other byte in between.
func marks(data []byte, i int) uint64 {
	// The compiler makes one comparison of this, and several instructions of data[i:].
	w := binary.LittleEndian.Uint64(data[i : i+8 : len(data)])
	return (((w ^ 2*ones) - ('"'^2+1)*ones) | ((w ^ '\\'*ones) - ones) | w) & highs
}

// first returns which of eight bytes has the lowest mark.
func first(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// quote returns the index of a byte at or after i before which all is plain text inside
// a JSON string: that of the closing quote, as a rule.
func quote(data []byte, i int) int {
	for i+8 <= len(data) {
		if m := marks(data, i); m != 0 {
			return i + first(m)
		}
		i += 8
	}
	return i
}

// plain returns the index of the first byte at or after i that is not plain text
// inside a JSON string, or len(data) if there is none.
func plain(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		if m := marks(data, i); m != 0 {
			return i + first(m)
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// isHex reports whether s begins with four hexadecimal digits.
func isHex(s []byte) bool {
	if len(s) < 4 {
		return false
	}
	for _, c := range s[:4] {
		if (c < '0' || '9' < c) && (c|0x20 < 'a' || 'f' < c|0x20) {
			return false
		}
	}
	return true
}
