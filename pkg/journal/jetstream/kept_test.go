package jetstream_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

func keeper(t *testing.T, c journal.Cursor) journal.ResnapshotKeeper {
	t.Helper()
	k, ok := c.(journal.ResnapshotKeeper)
	if !ok {
		t.Fatal("the cursor keeps no requests")
	}
	return k
}

// TestKeptResnapshots: requests of a sink outlive the process, but for those of targets
// that are not watched any more.
func TestKeptResnapshots(t *testing.T) {
	h := newHost(t)
	j := h.open()
	k := keeper(t, mustOpen(t, j, "bus", journal.FromNow))
	if kept, err := k.KeptResnapshots(t.Context()); err != nil || len(kept) != 0 {
		t.Errorf("at first: %+v, %v", kept, err)
	}
	both := again(7, "core/configmaps@a", "core/configmaps@b")
	secrets := again(8, "core/secrets")
	if err := k.KeepResnapshots(t.Context(), []journal.Resnapshot{both, secrets}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	j = h.open(func(c *jetstream.Config) {
		c.Watched = func(e *event.Event) bool { return e.Target == "core/configmaps@b" }
	})
	if kept, err := keeper(t, mustOpen(t, j, "other", journal.FromNow)).KeptResnapshots(t.Context()); err != nil || len(kept) != 0 {
		t.Errorf("of another sink: %+v, %v", kept, err)
	}
	k = keeper(t, mustOpen(t, j, "bus", journal.FromNow))
	kept, err := k.KeptResnapshots(t.Context())
	if err != nil || len(kept) != 1 || kept[0].Run != 7 {
		t.Fatalf("kept: %+v, %v", kept, err)
	}
	for i, pair := range [][2][]event.Event{{both.Begin[1:], kept[0].Begin}, {both.End[1:], kept[0].End}} {
		want := pair[0][0]
		want.Time = pair[1][0].Time
		if diff := cmp.Diff([]event.Event{want}, pair[1]); diff != "" {
			t.Errorf("bound %d (-want +got):\n%s", i, diff)
		}
	}
	if err := k.KeepResnapshots(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if kept, err := k.KeptResnapshots(t.Context()); err != nil || len(kept) != 0 {
		t.Errorf("at the end: %+v, %v", kept, err)
	}
}

// TestKeptResnapshotsOfALostStream: requests outlive a deletion of the stream that has them,
// and a second one.
func TestKeptResnapshotsOfALostStream(t *testing.T) {
	h := newHost(t)
	j := h.open()
	want := again(7, "core/configmaps")
	if err := keeper(t, mustOpen(t, j, "bus", journal.FromNow)).KeepResnapshots(t.Context(), []journal.Resnapshot{want}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.remove("INFORMD_STATE")
		failed(t, j)
		mustClose(t, j)
		lost := j
		j = h.open(func(c *jetstream.Config) { c.Replaces = lost })
		mustOpen(t, j, "bus", journal.FromNow)
	}
	mustClose(t, j)
	later := h.open()
	kept, err := keeper(t, mustOpen(t, later, "bus", journal.FromNow)).KeptResnapshots(t.Context())
	if err != nil || len(kept) != 1 || kept[0].Run != want.Run {
		t.Errorf("a later process has %+v, %v", kept, err)
	}
}
