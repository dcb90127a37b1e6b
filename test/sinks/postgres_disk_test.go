package sinks_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	server "github.com/informd/informd/test/postgres"
)

// TestPostgresDiskFull: while the disk of the server is full, events are neither lost nor refused. It mounts a small
// file system, as root.
func TestPostgresDiskFull(t *testing.T) {
	dir := t.TempDir()
	for _, open := range []string{dir, filepath.Dir(dir)} { // to the server's user
		must(t, os.Chmod(open, 0o711))
	}
	disk := filepath.Join(dir, "disk")
	must(t, os.Mkdir(disk, 0o700))
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=200m,mode=0711"); err != nil {
		t.Fatalf("mount a small file system (as root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	data := filepath.Join(disk, "data")
	must(t, os.Mkdir(data, 0o700))
	s := server.Start(t, server.Options{DataDir: data, Settings: map[string]string{"max_wal_size": "32MB", "min_wal_size": "32MB"}})
	d := newDatabase(t, s, nil)
	filler := filepath.Join(disk, "filler")
	next := func() []event.Event {
		var batch []event.Event
		for range 50 {
			batch = append(batch, d.object(event.Added, "object", `{"filler":"`+string(slices.Repeat([]byte("-"), 10_000))+`"}`))
		}
		return batch
	}
	d.write(next()...)
	for range 3 {
		fill(t, filler)
		failed, batch := false, next()
		for range 100 {
			n, err := d.sink.Write(t.Context(), batch)
			if err != nil {
				if failed = true; n != 0 || sink.IsPermanent(err) || sink.IsUnknown(err) {
					t.Fatalf("Write on a full disk returned %d, %v", n, err)
				}
				break
			}
			batch = next()
		}
		if !failed {
			t.Fatal("no Write failed on a full disk")
		}
		must(t, os.Remove(filler))
		if _, err := s.TryQuery(t.Context(), "SELECT 1"); err != nil {
			_ = s.Kill() // it has given up, or is about to
			must(t, s.Start(t.Context()))
		}
		for end := time.Now().Add(time.Minute); ; {
			n, err := d.sink.Write(t.Context(), batch)
			if n == len(batch) {
				break
			}
			if sink.IsPermanent(err) || sink.IsUnknown(err) || time.Now().After(end) {
				t.Fatalf("Write returned %d, %v", n, err)
			}
		}
	}
	d.want("SELECT count(*) = max(revision) AND count(*) = count(DISTINCT id) FROM t.history", "t")
}

// fill leaves no room on the file system of a file.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	must(t, f.Close())
}
