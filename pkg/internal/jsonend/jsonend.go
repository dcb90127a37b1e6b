// Package jsonend finds the ends of values in JSON without white space outside of strings,
// without decoding it. For other input the ends are undefined, or [None], but in bounds: the
// package checks the bounds, not the grammar.
//
// Packages event, fieldpath and change use it. It imports the standard library only, has no state
// and is safe for concurrent use.
package jsonend

import (
	"encoding/binary"
	"math/bits"
)

// None is the end of what has none in the data.
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
	for depth := 0; uint(i) < uint(len(data)); {
		switch data[i] {
		case '"':
			i, _ = Text(data, i)
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
	return None
}
