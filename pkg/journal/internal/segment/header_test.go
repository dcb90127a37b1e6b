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
		Name: segment.Name{Number: 7, Generation: 6}, ID: [16]byte{1}, Secret: [16]byte{2}, First: 5, Previous: 3, Through: 8,
	}
	const want = "494e464c4f470003010000000000000000000000000000000200000000000000000000000000000005000000000000000300000000000000" +
		"070000000600000008000000080884d7"
	if got := hex.EncodeToString(h.Append(nil)); got != want {
		t.Errorf("header\n%s, want\n%s", got, want)
	}
}
