package jetstream_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// TestUnchangedIsKept: which change filters of sinks see no change is in the journal with the event,
// and nothing where there is nothing to know.
func TestUnchangedIsKept(t *testing.T) {
	h := newHost(t)
	j := h.open()
	mustClose(t, mustOpen(t, j, "bus", journal.FromNow))
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	filtered := a.event(&now, event.Added)
	filtered.Unchanged = []uint64{1, 1<<64 - 1}
	mustAppend(t, j, filtered, b.event(&now, event.Added))
	mustClose(t, j)
	j = h.open()
	want := map[string][]uint64{"a": filtered.Unchanged, "b": nil}
	for _, entry := range read(t, mustOpen(t, j, "bus", journal.FromNow), 2) {
		if diff := cmp.Diff(want[entry.Event.Name], entry.Event.Unchanged); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
	}
}

// detached are the sequences of entries with whether they are.
func detached(entries []journal.Entry) (all []string) {
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%d%t", e.Seq, e.Detached))
	}
	return all
}

// TestDetached: what is in the log when events turn out to be gone is detached, also
// after a restart in its middle; what is appended later is not.
func TestDetached(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	mustClose(t, mustOpen(t, j, "bus", journal.FromNow))
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	for range 20 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	mustClose(t, j)
	j = h.open(history(4))
	c := mustOpen(t, j, "bus", journal.FromNow)
	if got, want := detached(read(t, c, 3)), []string{"0true", "18true", "19true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	mustCommit(t, c, 18)
	mustClose(t, c)
	mustClose(t, j)
	j = h.open(history(4))
	c = mustOpen(t, j, "bus", journal.FromNow)
	mustAppend(t, j, a.event(&now, event.Modified))
	if got, want := detached(read(t, c, 4)), []string{"19true", "20true", "21true", "22false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	mustCommit(t, c, 22)
	rewinder, ok := c.(journal.Rewinder)
	if !ok {
		t.Fatal("the cursor cannot go back")
	}
	if _, err := rewinder.Rewind(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	var again []journal.Entry
	for len(again) == 0 || again[len(again)-1].Seq < 22 {
		again = append(again, read(t, c, 1)...)
	}
	mustAppend(t, j, a.event(&now, event.Modified))
	for _, e := range append(again, read(t, c, 1)...) {
		if e.Detached != (e.Seq < 23) {
			t.Errorf("%d is detached: %t", e.Seq, e.Detached)
		}
	}
}

// TestDetachedBehindASnapshot: an object that changes while a new sink gets its snapshot
// may not be in that.
func TestDetachedBehindASnapshot(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a, d := &object{name: "a"}, &object{name: "d"}
	mustAppend(t, j, a.event(&now, event.Added), d.event(&now, event.Added))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	mustAppend(t, j, d.event(&now, event.Modified))
	var got []journal.Entry
	for len(got) == 0 || got[len(got)-1].Seq < 3 {
		got = append(got, read(t, c, 1)...)
	}
	mustAppend(t, j, d.event(&now, event.Modified))
	got = append(got, read(t, c, 1)...)
	for _, e := range got {
		if e.Event.Op == event.Modified && e.Detached != (e.Seq == 3) {
			t.Errorf("%d is detached: %t", e.Seq, e.Detached)
		}
	}
}
