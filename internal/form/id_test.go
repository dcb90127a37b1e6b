package form_test

import (
	"testing"

	"github.com/informd/informd/internal/form"
)

// TestRunsRise: no two are the same, however fast they are asked for.
func TestRunsRise(t *testing.T) {
	var runs form.Runs
	last := uint64(0)
	for range 1000 {
		next := runs.Next()
		if next <= last {
			t.Fatalf("run %d after %d", next, last)
		}
		last = next
	}
}
