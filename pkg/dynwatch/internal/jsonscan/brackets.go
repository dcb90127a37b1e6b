package jsonscan

import "strings"

// Brackets finds the end of a JSON value that comes in pieces. It counts brackets
// outside strings and checks nothing else: whether the value is valid is for a
// [scanner] to say. The zero value is at the first byte of a value.
type Brackets struct {
	depth   int
	inside  bool // a string
	escaped bool // the last byte was the backslash of an escape
	scalar  bool // a number or a literal
}

// Feed takes the next piece and returns how many of its bytes belong to the value,
// and whether the value ends there.
func (b *Brackets) Feed(piece []byte) (n int, done bool) {
	for i := 0; i < len(piece); {
		switch {
		case b.inside:
			if i = b.text(piece, i); !b.inside && b.depth == 0 {
				return i, true
			}
			continue
		case b.scalar:
			if strings.IndexByte(",:]} \t\r\n\"[{", piece[i]) >= 0 {
				return i, true
			}
		case b.ends(piece[i]):
			return i + 1, true
		}
		i++
	}
	return len(piece), false
}

// ends takes one byte outside strings and reports whether the value ends with it.
func (b *Brackets) ends(c byte) bool {
	switch c {
	case '"':
		b.inside = true
	case '{', '[':
		b.depth++
	case '}', ']':
		b.depth--
		return b.depth <= 0
	default:
		b.scalar = b.depth == 0
	}
	return false
}

// text steps through a string, up to behind what ends it or to the piece's end.
func (b *Brackets) text(piece []byte, i int) int {
	if b.escaped {
		b.escaped = false
		return i + 1
	}
	for i < len(piece) {
		if i+8 <= len(piece) {
			m := marks(piece, i)
			if m == 0 {
				i += 8
				continue
			}
			i += first(m)
		}
		i++
		switch piece[i-1] {
		case '"':
			b.inside = false
			return i
		case '\\':
			b.escaped = true
			return i
		}
	}
	return i
}
