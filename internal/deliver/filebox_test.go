package deliver_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
)

// TestFileBoxNumbersStay: a number stands for its letter until that one is dropped,
// whatever else is dropped or added meanwhile.
func TestFileBoxNumbersStay(t *testing.T) {
	box := deliver.NewFileBox(t.TempDir(), "out")
	put := func(text string) {
		t.Helper()
		if err := box.Put(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(numbers ...uint64) {
		t.Helper()
		if err := box.Drop(t.Context(), numbers...); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...string) {
		t.Helper()
		var got []string
		err := box.Each(t.Context(), func(number uint64, letter []byte) error {
			got = append(got, fmt.Sprintf("%d %s", number, letter))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("letters (-want +got):\n%s", diff)
		}
	}
	put("a")
	put("b")
	put("c")
	drop(1)
	want("2 b", "3 c")
	drop(1, 3)
	want("2 b")
	put("d")
	want("2 b", "4 d")
	drop(2, 4, 7)
	want()
	put("e") // nobody has a number any more
	want("1 e")
}

// noneUnreadable is for files that CountFiled must be able to read.
func noneUnreadable(t *testing.T) func(string, error) {
	return func(path string, err error) { t.Errorf("%s: %v", path, err) }
}

// TestCountFiled counts what is kept, also for a sink with a name that no file can have.
func TestCountFiled(t *testing.T) {
	dir := t.TempDir()
	if counts, err := deliver.CountFiled(dir, noneUnreadable(t)); err != nil || len(counts) != 0 {
		t.Errorf("without a file: %v, %v", counts, err)
	}
	box := deliver.NewFileBox(dir, "a/b")
	for range 3 {
		if err := box.Put(t.Context(), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := box.Drop(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if counts, err := deliver.CountFiled(dir, noneUnreadable(t)); err != nil || len(counts) != 1 || counts["a/b"] != 2 {
		t.Errorf("%v, %v", counts, err)
	}
}

// TestCountFiledBesideUnreadable: a file that informd does not read does not hide the others.
func TestCountFiledBesideUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := deliver.NewFileBox(dir, "out").Put(t.Context(), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "deadletters", "foreign.ndjson")
	if err := os.Symlink("out.ndjson", foreign); err != nil {
		t.Fatal(err)
	}
	var unreadable []string
	counts, err := deliver.CountFiled(dir, func(path string, err error) { unreadable = append(unreadable, fmt.Sprint(path, ": ", err)) })
	if err != nil || len(counts) != 1 || counts["out"] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
	if len(unreadable) != 1 || !strings.Contains(unreadable[0], foreign) || !strings.Contains(unreadable[0], "symbolic link") {
		t.Errorf("unreadable: %q", unreadable)
	}
}

// largeFile puts n dead letters of that size into a box.
func largeFile(t *testing.T, box *deliver.FileBox, n, size int) {
	t.Helper()
	letter := bytes.Repeat([]byte{'x'}, size)
	for range n {
		if err := box.Put(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestCountFiledTakesNoMemory: metrics count dead letters every few seconds.
func TestCountFiledTakesNoMemory(t *testing.T) {
	dir := t.TempDir()
	largeFile(t, deliver.NewFileBox(dir, "out"), 32, 1<<20)
	var counts map[string]uint64
	took := allocated(func() { counts, _ = deliver.CountFiled(dir, noneUnreadable(t)) })
	if counts["out"] != 32 || took > 1<<20 {
		t.Errorf("%v took %d bytes for a file of 32 MiB", counts, took)
	}
}

// TestFileBoxHoldsOneLetter: neither reading nor dropping takes the memory of the file.
func TestFileBoxHoldsOneLetter(t *testing.T) {
	const n, size = 32, 1 << 20
	box := deliver.NewFileBox(t.TempDir(), "out")
	largeFile(t, box, n, size)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, read := heap(), uint64(0), 0
	err := box.Each(t.Context(), func(number uint64, letter []byte) error {
		read++
		if most = max(most, heap()); len(letter) != size {
			return fmt.Errorf("letter %d has %d bytes", number, len(letter))
		}
		return box.Drop(t.Context(), number) // the others stay as they were
	})
	if err != nil || read != n {
		t.Fatalf("%d letters, %v", read, err)
	}
	if took := int64(most) - int64(before); took > 8*size {
		t.Errorf("%d MiB are in use at a time", took/size)
	}
	if err := box.Each(t.Context(), func(uint64, []byte) error { return errors.New("not dropped") }); err != nil {
		t.Error(err)
	}
}
