package deliver_test

import (
	"fmt"
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

// TestCountFiled counts what is kept, also for a sink with a name that no file can have.
func TestCountFiled(t *testing.T) {
	dir := t.TempDir()
	if counts, err := deliver.CountFiled(dir); err != nil || len(counts) != 0 {
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
	if counts, err := deliver.CountFiled(dir); err != nil || len(counts) != 1 || counts["a/b"] != 2 {
		t.Errorf("%v, %v", counts, err)
	}
}
