package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/journal/internal/disk"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *disk.Directory {
	t.Helper()
	d, warning, err := disk.Open(path)
	if err != nil || warning != "" {
		t.Fatal(warning, err)
	}
	return d
}

func private(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	must(t, os.Mkdir(path, 0o700))
	return path
}

func TestFiles(t *testing.T) {
	path := private(t)
	d := open(t, path)
	f, err := d.Create("a")
	must(t, err)
	_, writeErr := f.WriteAt([]byte("content"), 0)
	must(t, errors.Join(writeErr, f.Truncate(4), f.Sync(), d.Rename("a", "b"), d.Sync(), os.Mkdir(filepath.Join(path, "dir"), 0o700)))
	if size, err := f.Size(); size != 4 || err != nil {
		t.Error(size, err)
	}
	if _, err := d.Create("b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created again: %v", err)
	}
	names, err := d.Names()
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"b", "lock"}) {
		t.Error(names, err)
	}
	again, err := d.Open("b")
	must(t, err)
	b := make([]byte, 4)
	must(t, d.Remove("b"))
	if _, err := again.ReadAt(b, 0); err != nil || string(b) != "cont" {
		t.Errorf("after its removal: %q, %v", b, err)
	}
	if _, err := d.Open("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if free, total, err := d.Free(); free == 0 || free > total || err != nil {
		t.Error(free, total, err)
	}
	must(t, errors.Join(f.Close(), again.Close(), d.Close()))
}

func TestOneProcess(t *testing.T) {
	path := private(t)
	d := open(t, path)
	_, _, err := disk.Open(path)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second lock: %v", err)
	}
	must(t, d.Close())
	must(t, open(t, path).Close())
}

func TestReplaced(t *testing.T) {
	path := private(t)
	d := open(t, path)
	if d.Replaced() {
		t.Error("replaced from the beginning")
	}
	must(t, os.Rename(path, path+".old"))
	if !d.Replaced() {
		t.Error("the directory was moved away unnoticed")
	}
	must(t, d.Close())
}

func TestRefusesLinks(t *testing.T) {
	path := private(t)
	outside := filepath.Join(t.TempDir(), "file")
	must(t, errors.Join(os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(path, "link"))))
	d := open(t, path)
	if _, err := d.Open("link"); err == nil {
		t.Error("followed a link")
	}
	if _, err := d.Create("../x"); err == nil {
		t.Error("left the directory")
	}
	must(t, d.Close())
}
