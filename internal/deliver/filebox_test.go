package deliver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
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

// countsOf is for files that can all be read.
func countsOf(t *testing.T, dir string) *deliver.FiledCounts {
	return &deliver.FiledCounts{Dir: dir, Unreadable: func(path string, err error) { t.Errorf("%s: %v", path, err) }}
}

// TestFiledCounts counts what is kept, also for a sink with a name that no file can have, and in a
// directory with the signs of a pattern.
func TestFiledCounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a]*?")
	if counts, err := countsOf(t, dir).Get(t.Context()); err != nil || len(counts) != 0 {
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
	if counts, err := countsOf(t, dir).Get(t.Context()); err != nil || len(counts) != 1 || counts["a/b"] != 2 {
		t.Errorf("%v, %v", counts, err)
	}
}

// TestFiledCountsOfChanges: a count follows each change of a file, and does not read one that has
// not changed. It ends with its context.
func TestFiledCountsOfChanges(t *testing.T) {
	dir := t.TempDir()
	counts := countsOf(t, dir)
	want := func(when string, want uint64) {
		t.Helper()
		if got, err := counts.Get(t.Context()); err != nil || got["out"] != want {
			t.Errorf("%s: %v, %v; want %d", when, got, err, want)
		}
	}
	box := deliver.NewFileBox(dir, "out")
	largeFile(t, box, 3, 2)
	want("at first", 3)
	largeFile(t, box, 1, 2)
	want("after another one", 4)
	if err := box.Drop(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	want("after a drop", 2)
	info, err := os.Stat(box.Place())
	if err != nil {
		t.Fatal(err)
	}
	stays := bytes.Repeat([]byte{'\n'}, int(info.Size()))
	if err := errors.Join(os.WriteFile(box.Place(), stays, 0o600), os.Chtimes(box.Place(), info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	want("with size and time of before", 2)
	if err := os.Remove(box.Place()); err != nil {
		t.Fatal(err)
	}
	want("without the file", 0)
	largeFile(t, box, 1, 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := counts.Get(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("without a context: %v, %v", got, err)
	}
}

// TestFiledCountsBesideUnreadable: a file that informd does not read does not hide the others.
func TestFiledCountsBesideUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := deliver.NewFileBox(dir, "out").Put(t.Context(), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "deadletters", "foreign.ndjson")
	if err := os.Symlink("out.ndjson", foreign); err != nil {
		t.Fatal(err)
	}
	var unreadable []string
	all := deliver.FiledCounts{Dir: dir, Unreadable: func(path string, err error) { unreadable = append(unreadable, fmt.Sprint(path, ": ", err)) }}
	counts, err := all.Get(t.Context())
	if err != nil || len(counts) != 1 || counts["out"] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
	if len(unreadable) != 1 || !strings.Contains(unreadable[0], foreign) || !strings.Contains(unreadable[0], "symbolic link") {
		t.Errorf("unreadable: %q", unreadable)
	}
}

// TestFileBoxLimits: letters of all sinks together leave space on a small volume. Those that are
// too large are kept without data, as long as these fit.
func TestFileBoxLimits(t *testing.T) {
	dir := t.TempDir()
	bytesIn := func() (sum int64) {
		t.Helper()
		files, err := os.ReadDir(filepath.Join(dir, "deadletters"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			info, err := file.Info()
			if err != nil {
				t.Fatal(err)
			}
			sum += info.Size()
		}
		return sum
	}
	one, other := deliver.NewFileBox(dir, "one"), deliver.NewFileBox(dir, "other")
	largeFile(t, one, 15, 1<<20)
	largeFile(t, other, 16, 1<<20)
	if err := other.Put(t.Context(), make([]byte, 1<<20)); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("a large letter beyond 32 MiB: %v", err)
	}
	e := event.Event{ID: "uid:1", Op: event.Added, Name: "large", UID: "uid", Data: []byte(`{"object":{"data":"` + strings.Repeat("x", 1<<20) + `"}}`)}
	if err := deliver.NewDeadLetters("one", one).Write(t.Context(), deliver.Letter{Event: &e, Reason: "no"}); err != nil {
		t.Errorf("a dead letter beyond 32 MiB: %v", err)
	}
	var last []byte
	if err := one.Each(t.Context(), func(_ uint64, letter []byte) error {
		last = letter
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(last) > 1<<10 || !bytes.Contains(last, []byte("without the event's data")) {
		t.Errorf("the dead letter beyond 32 MiB: %.300s", last)
	}
	if err := os.WriteFile(filepath.Join(dir, "deadletters", "third.ndjson"), make([]byte, 48<<20-bytesIn()-10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	largeFile(t, other, 1, 5_000)
	err := other.Put(t.Context(), make([]byte, 5_000))
	if err == nil || errors.Is(err, journal.ErrTooLarge) || !strings.Contains(err.Error(), "redeliver or drop some") {
		t.Errorf("a small letter beyond 48 MiB: %v", err)
	}
	if sum := bytesIn(); sum > 48<<20 {
		t.Errorf("the files have %d bytes", sum)
	}
	if err := one.Drop(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := other.Put(t.Context(), make([]byte, 5_000)); err != nil {
		t.Errorf("a small letter after another one was dropped: %v", err)
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

// TestFiledCountsTakeNoMemory: metrics count dead letters every few seconds.
func TestFiledCountsTakeNoMemory(t *testing.T) {
	dir := t.TempDir()
	largeFile(t, deliver.NewFileBox(dir, "out"), 31, 1<<20)
	var counts map[string]uint64
	took := allocated(func() { counts, _ = countsOf(t, dir).Get(t.Context()) })
	if counts["out"] != 31 || took > 1<<20 {
		t.Errorf("%v took %d bytes for a file of 31 MiB", counts, took)
	}
}

// TestFileBoxUnfinishedDrop: the new file of a Drop, also of one that a kill has ended, takes no
// space from letters. Nor does a file that an operator has moved aside, which stays.
func TestFileBoxUnfinishedDrop(t *testing.T) {
	dir := t.TempDir()
	box := deliver.NewFileBox(dir, "one")
	if err := box.Put(t.Context(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "deadletters", "one.ndjson.123")
	if err := os.WriteFile(other, make([]byte, 48<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := box.Put(t.Context(), make([]byte, 200<<10)); err != nil {
		t.Errorf("beside an unfinished Drop: %v", err)
	}
	if err := box.Drop(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("after the next Drop: %v", err)
	}
}

// TestFileBoxHoldsOneLetter: neither reading nor dropping takes the memory of the file.
func TestFileBoxHoldsOneLetter(t *testing.T) {
	const n, size = 31, 1 << 20
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
