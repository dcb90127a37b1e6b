package fieldpath

import (
	"bytes"
	"encoding/json"

	"github.com/informd/informd/pkg/internal/jsonend"
)

// key returns the text of the key whose opening quote is at i, and where its value
// begins.
func key(data []byte, i int) (name []byte, value int) {
	end, escapes := jsonend.Text(data, i)
	name = data[i+1 : end-1]
	if escapes {
		name = decode(data[i:end])
	}
	return name, end + 1
}

// Text returns the decoded content of a JSON string with its quotes, and false for any other
// value. It aliases value if that has no escapes.
func Text(value []byte) ([]byte, bool) {
	if len(value) == 0 || value[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1], true
	}
	return decode(value), true
}

// decode returns the content of a string with escapes.
func decode(value []byte) []byte {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return value // which does not happen: it is valid
	}
	return []byte(s)
}
