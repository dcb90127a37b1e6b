package file

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/informd/informd/pkg/sink/internal/compress"
)

// TestCompressorThatOutlivesItsSink: when an older file is compressed at last, the next sink
// writes its own archive at the same path. That is not complete, and stays.
func TestCompressorThatOutlivesItsSink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	l := &log{path: path, maxFiles: 3, logger: slog.New(slog.DiscardHandler)}
	c := &compressor{log: l, method: compress.Gzip, life: t.Context()}
	if err := os.WriteFile(l.numbered(1), []byte("older\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	older, err := os.Open(l.numbered(1))
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close() //nolint:errcheck // nothing was written
	info, err := older.Stat()
	if err != nil {
		t.Fatal(err)
	}
	packed := path + unfinished
	made, err := c.pack(older, info, packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packed+".next", []byte("not complete"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(packed+".next", packed); err != nil {
		t.Fatal(err)
	}
	if err := l.replace(info, made, packed, c.method.Suffix()); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{l.numbered(1): true, packed: true, l.numbered(1) + ".gz": false} {
		if _, err := os.Stat(name); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %t", filepath.Base(name), err, there)
		}
	}
}
