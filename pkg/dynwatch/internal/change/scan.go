package change

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/informd/informd/pkg/fieldpath"
)

// What follows finds the ends of things in JSON without white space. It never reads
// beyond the data, and returns none where something has no end.

// none is the index of what is not there.
const none = -1

// One byte of a word for each of eight bytes of text.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// text returns the index behind the string whose opening quote is at i, and whether it
// has escapes.
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
		if i >= len(data) {
			return none, escapes
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
	if i >= len(data) {
		return none
	}
	switch data[i] {
	case '"':
		end, _ := text(data, i)
		return end
	case '{', '[':
		return skipNested(data, i)
	}
	from := i
	for i < len(data) && data[i] != ',' && data[i] != '}' && data[i] != ']' {
		i++
	}
	if i == from {
		return none
	}
	return i
}

func skipNested(data []byte, i int) int {
	for depth := 0; i < len(data); {
		switch data[i] {
		case '"':
			if i, _ = text(data, i); i == none {
				return none
			}
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
	return none
}

// child is a member of an object or an element of an array: where it, its value and
// what is behind it begin.
type child struct {
	from, value, end int
	escapes          bool // the key has some
	met              bool // it has been compared
}

// next returns the child that begins at i.
func next(data []byte, i int, array bool) (child, bool) {
	c := child{from: i, value: i}
	if !array {
		if i >= len(data) || data[i] != '"' {
			return c, false
		}
		if i, c.escapes = text(data, i); i == none || i >= len(data) || data[i] != ':' {
			return c, false
		}
		c.value = i + 1
	}
	c.end = skip(data, c.value)
	return c, c.end != none && c.end < len(data)
}

// key returns the decoded key of a member.
func (c child) key(data []byte) []byte {
	quoted := data[c.from : c.value-1]
	if !c.escapes {
		return quoted[1 : len(quoted)-1]
	}
	decoded, _ := fieldpath.Text(quoted)
	return decoded
}

// isKey reports whether two members have the same key.
func isKey(data []byte, c child, other []byte, d child) bool {
	if !c.escapes && !d.escapes {
		return bytes.Equal(data[c.from:c.value], other[d.from:d.value])
	}
	return bytes.Equal(c.key(data), d.key(other))
}

// sameText reports whether two strings say the same.
func sameText(value, other []byte) bool {
	x, _ := fieldpath.Text(value)
	y, _ := fieldpath.Text(other)
	return bytes.Equal(x, y)
}
