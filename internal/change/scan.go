package change

import (
	"bytes"
	"unicode/utf8"

	"github.com/informd/informd/internal/jsonend"
)

// none is the index of what is not there.
const none = jsonend.None

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
		if i, c.escapes = jsonend.Text(data, i); i == none || i >= len(data) || data[i] != ':' {
			return c, false
		}
		c.value = i + 1
	}
	c.end = jsonend.Value(data, c.value)
	return c, c.end != none && c.end < len(data)
}

// key returns the decoded key of a member.
func (c child) key(data []byte) []byte {
	quoted := data[c.from : c.value-1]
	if !c.escapes {
		return quoted[1 : len(quoted)-1]
	}
	decoded, _ := jsonend.Decode(quoted)
	return decoded
}

// isKey reports whether two members have the same key.
func isKey(data []byte, c child, other []byte, d child) bool {
	if !c.escapes && !d.escapes {
		return bytes.Equal(data[c.from:c.value], other[d.from:d.value])
	}
	return bytes.Equal(c.key(data), d.key(other))
}

// sameText reports whether two strings, which are not written alike, say the same. What
// decodes to U+FFFD does not say: half a surrogate pair does, whichever it is.
func sameText(value, other []byte) bool {
	x, _ := jsonend.Decode(value)
	y, _ := jsonend.Decode(other)
	return bytes.Equal(x, y) && !bytes.ContainsRune(x, utf8.RuneError)
}
