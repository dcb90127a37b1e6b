package fieldpath

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// What follows reads JSON that is known to be valid and without white space: it finds
// the ends of things and checks nothing.

// One byte of a word for each of eight bytes of text.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// text returns the index behind the string whose opening quote is at i, and whether
// it has escapes.
func text(data []byte, i int) (end int, escapes bool) {
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

// skip returns the index behind the value that begins at i.
func skip(data []byte, i int) int {
	switch data[i] {
	case '"':
		end, _ := text(data, i)
		return end
	case '{', '[':
		return skipNested(data, i)
	}
	for i < len(data) && data[i] != ',' && data[i] != '}' && data[i] != ']' {
		i++
	}
	return i
}

func skipNested(data []byte, i int) int {
	for depth := 0; ; {
		switch data[i] {
		case '"':
			i, _ = text(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
}

// key returns the text of the key whose opening quote is at i, and where its value
// begins.
func key(data []byte, i int) (name []byte, value int) {
	end, escapes := text(data, i)
	name = data[i+1 : end-1]
	if escapes {
		name = decode(data[i:end])
	}
	return name, end + 1
}

// Text returns what a string says, given as it stands with its quotes, and false for
// any other value. It aliases value if that has no escapes.
func Text(value []byte) ([]byte, bool) {
	if len(value) == 0 || value[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1], true
	}
	return decode(value), true
}

// decode returns what a string with escapes says.
func decode(value []byte) []byte {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return value // which does not happen: it is valid
	}
	return []byte(s)
}
