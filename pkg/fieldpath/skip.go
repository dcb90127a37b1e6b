package fieldpath

import (
	"bytes"
	"encoding/json"
)

// What follows reads JSON that is known to be valid and without white space: it finds
// the ends of things and checks nothing.

// text returns the index behind the string whose opening quote is at i, and whether
// it has escapes.
func text(data []byte, i int) (end int, escapes bool) {
	i++
	for {
		n := bytes.IndexByte(data[i:], '"')
		piece := data[i : i+n]
		i += n + 1
		if bytes.IndexByte(piece, '\\') < 0 {
			return i, escapes
		}
		escapes = true
		// The quote belongs to the text if an odd number of backslashes precedes it.
		backslashes := 0
		for backslashes < len(piece) && piece[len(piece)-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i, escapes
		}
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
