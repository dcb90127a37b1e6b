package display

import (
	"encoding/binary"
	"fmt"
	"io"
	"unicode/utf8"
)

// JSON returns a JSON text with escapes in place of the characters that encoding/json
// writes as they are and that terminals obey or that reorder what they show: DEL, C1
// controls, and controls of bidirectional text. The text means the same. It returns text
// itself if there are none.
func JSON(text []byte) []byte {
	for i := 0; i < len(text); {
		if i+8 <= len(text) && plain(binary.LittleEndian.Uint64(text[i:])) {
			i += 8
			continue
		}
		if text[i] < del {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if hidden(r) {
			return escaped(text, i)
		}
		i += size
	}
	return text
}

const del = 0x7f

// plain reports whether each of eight bytes is below DEL: adding one sets no highest bit then.
func plain(eight uint64) bool {
	const ones = 0x0101010101010101
	return (eight|(eight+ones))&(ones<<7) == 0
}

// escaped is JSON for a text whose first character to escape is at from.
func escaped(text []byte, from int) []byte {
	out := append(make([]byte, 0, len(text)+64), text[:from]...)
	for i := from; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if hidden(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, text[i:i+size]...)
		}
		i += size
	}
	return out
}

// hidden reports whether a terminal obeys a character instead of showing it.
func hidden(r rune) bool {
	switch {
	case r < del:
		return false // encoding/json escapes it
	case r <= 0x9f, r == 0x061c, r == 0x200e, r == 0x200f:
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// JSONWriter returns a writer that writes [JSON] of what it is given. Each Write has whole
// characters.
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ io.Writer }

func (w jsonWriter) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write(JSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
