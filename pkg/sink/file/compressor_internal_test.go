package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/informd/informd/pkg/sink/internal/compress"
)

// TestFileMovedAtTheEndOfACompression: another program rotates the files while the directory is synced, so that the
// current file is at the path of the older one.
func TestFileMovedAtTheEndOfACompression(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	for name, text := range map[string]string{path: "current", path + ".1": "older"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func(string) error {
		return errors.Join(os.Rename(path+".1", path+".2"), os.Rename(path, path+".1"))
	}
	if err := compressFile(t.Context(), path+".1", path+unfinished, compress.Gzip, rotate); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path + ".1"); err != nil || string(text) != "current" {
		t.Errorf("the current file before is %q, %v", text, err)
	}
}
