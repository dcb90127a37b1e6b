package disktest_test

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/informd/informd/pkg/journal/internal/disk"
	"github.com/informd/informd/pkg/journal/internal/disk/disktest"
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, f disk.File, content string, off int64) {
	t.Helper()
	must[int](t)(f.WriteAt([]byte(content), off))
}

func restarted(d *disktest.Disk) *disktest.Disk {
	d.PowerLoss()
	d.Restart()
	return d
}

func TestSyncedStays(t *testing.T) {
	for seed := range uint64(100) {
		d := disktest.New(seed)
		f := must[disk.File](t)(d.Create("a"))
		write(t, f, "synced", 0)
		ok(t, f.Sync(), d.Sync())
		write(t, f, "later", 6)
		restarted(d)
		if got := string(d.Content("a")); got[:6] != "synced" || len(got) > 11 {
			t.Fatalf("seed %d: %q", seed, got)
		}
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, disktest.ErrPowerLost) {
			t.Fatalf("seed %d: a file from before the power loss: %v", seed, err)
		}
	}
}

// What was not synced must be lost in some crashes, stay in others, and be mixed in others.
func TestUnsyncedIsLostInAnyWay(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(300) {
		d := disktest.New(seed)
		f := must[disk.File](t)(d.Create("a"))
		ok(t, d.Sync())
		page := make([]byte, 512)
		for i := range int64(3) {
			for j := range page {
				page[j] = byte('a' + i)
			}
			write(t, f, string(page), 512*i)
		}
		must[disk.File](t)(d.Create("b"))
		restarted(d)
		content := d.Content("a")
		state := ""
		for i := 0; i < len(content); i += 512 {
			state += string(rune(content[i]))
		}
		seen[state] = true
		seen["has b"] = seen["has b"] || d.Content("b") != nil
		seen["no b"] = seen["no b"] || d.Content("b") == nil
	}
	for _, state := range []string{"", "abc", "a", "\x00bc", "a\x00c", "ab\x00", "\x00\x00\x00", "has b", "no b"} {
		if !seen[state] {
			t.Errorf("no crash left %q", state)
		}
	}
}

func TestRenameIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(100) {
		d := disktest.New(seed)
		for _, name := range []string{"old", "new"} {
			f := must[disk.File](t)(d.Create(name))
			write(t, f, name, 0)
			ok(t, f.Sync())
		}
		ok(t, d.Sync(), d.Rename("new", "old"))
		restarted(d)
		names := must[[]string](t)(d.Names())
		content := string(d.Content("old"))
		if len(names) != map[string]int{"old": 2, "new": 1}[content] {
			t.Fatalf("seed %d: %v, %q", seed, names, content)
		}
		seen[content] = true
	}
	if len(seen) != 2 {
		t.Errorf("only %v", seen)
	}
}

func TestFullDisk(t *testing.T) {
	d := disktest.New(1)
	f := must[disk.File](t)(d.Create("a"))
	d.Set(disktest.Faults{Size: 10})
	if n, err := f.WriteAt(make([]byte, 12), 0); n != 10 || !disk.IsFull(err) {
		t.Errorf("%d bytes, %v", n, err)
	}
	ok(t, f.Truncate(4))
	if n, err := f.WriteAt([]byte("1234567"), 4); n != 6 || !disk.IsFull(err) {
		t.Errorf("%d bytes, %v", n, err)
	}
	ok(t, d.Remove("a"))
	write(t, must[disk.File](t)(d.Create("b")), "1234567890", 0)
}

func TestFailingSyncDropsPages(t *testing.T) {
	d := disktest.New(1)
	f := must[disk.File](t)(d.Create("a"))
	ok(t, d.Sync())
	write(t, f, "lost", 0)
	d.Set(disktest.Faults{SyncFails: func(string) bool { return true }})
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	d.Set(disktest.Faults{})
	ok(t, f.Sync())
	if got := string(d.Content("a")); got != "lost" {
		t.Errorf("%q before the power loss", got)
	}
	if got := string(restarted(d).Content("a")); got == "lost" {
		t.Error("a sync after a failed one made the bytes durable")
	}
}

func TestPowerAfter(t *testing.T) {
	d := disktest.New(1)
	d.Set(disktest.Faults{PowerAfter: 2})
	f := must[disk.File](t)(d.Create("a"))
	write(t, f, "x", 0)
	if err := f.Sync(); !errors.Is(err, disktest.ErrPowerLost) {
		t.Error(err)
	}
	if _, err := d.Open("a"); !errors.Is(err, disktest.ErrPowerLost) {
		t.Error(err)
	}
	d.Restart()
	if _, err := d.Open("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFlipCutClone(t *testing.T) {
	d := disktest.New(1)
	f := must[disk.File](t)(d.Create("a"))
	write(t, f, "abc", 0)
	other := d.Clone(2)
	d.Flip("a", 8)
	d.Cut("a", 1)
	if got := string(d.Content("a")); got != "ac" {
		t.Errorf("%q", got)
	}
	if got := string(restarted(other).Content("a")); got != "abc" {
		t.Errorf("%q in the clone", got)
	}
	b := make([]byte, 4)
	if n, err := f.ReadAt(b, 1); n != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	ok(t, d.Remove("a"))
	if n, err := f.ReadAt(b[:1], 0); n != 1 || err != nil {
		t.Errorf("of a removed file: %d bytes, %v", n, err)
	}
	if names := must[[]string](t)(d.Names()); slices.Contains(names, "a") {
		t.Error(names)
	}
}
