package embedded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/journal/embedded"
)

// TestRemovedLock: a second informd does not get in when the lock file was removed, or
// replaced by another one, and gets in once the first has ended.
func TestRemovedLock(t *testing.T) {
	dir := t.TempDir()
	first := start(t, config(dir))
	path := filepath.Join(dir, "lock")
	for what, harm := range map[string]func() error{
		"there":   func() error { return nil },
		"removed": func() error { return os.Remove(path) },
		"replaced": func() error {
			_ = os.Remove(path) // it may be gone
			return os.WriteFile(path, nil, 0o600)
		},
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		second, err := embedded.Start(t.Context(), config(dir))
		if err == nil {
			stop(t, second)
		}
		if err == nil || !strings.Contains(err.Error(), "in use by another informd") {
			t.Errorf("the lock file is %s: %v", what, err)
		}
	}
	stop(t, first)
	start(t, config(dir))
}
