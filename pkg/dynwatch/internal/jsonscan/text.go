package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// One byte of a word for each of eight bytes of text.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
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

// Unescape appends the text of a JSON string, given without its quotes and known
// to be valid, to dst. Half a surrogate pair becomes U+FFFD, as encoding/json has
// it.
func Unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		if c != 'u' {
			dst = append(dst, escaped(c))
			continue
		}
		r := hex4(s[i:])
		i += 4
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
				pair = utf16.DecodeRune(r, hex4(s[i+2:]))
			}
			if r = pair; r != utf8.RuneError {
				i += 6
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// escaped returns what a backslash and c stand for.
func escaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // a quote, a backslash, a slash
}

// hex4 reads four hexadecimal digits. It returns -1 if s begins with anything else.
func hex4(s []byte) rune {
	if len(s) < 4 {
		return -1
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
