package segment_test

import (
	"encoding/hex"
	"testing"

	"github.com/informd/informd/pkg/journal/internal/segment"
)

// TestFormat: a log that an earlier build has written stays readable. A change of these bytes, or of the
// meaning of what follows them, needs another magic.
func TestFormat(t *testing.T) {
	h := segment.Header{
		Name: segment.Name{Number: 7, Generation: 6}, ID: [16]byte{1}, Secret: [16]byte{2}, First: 5, Created: 4, Previous: 3, Through: 8,
	}
	const want = "494e464c4f4700010100000000000000000000000000000002000000000000000000000000000000" +
		"050000000000000004000000000000000300000000000000070000000600000008000000c34fd0c0"
	if got := hex.EncodeToString(h.Append(nil)); got != want {
		t.Errorf("header\n%s, want\n%s", got, want)
	}
}
