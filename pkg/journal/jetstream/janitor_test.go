package jetstream_test

import (
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestJanitorRemovesHistory removes what lies below a deletion once every open
// cursor has passed it, and nothing else.
func TestJanitorRemovesHistory(t *testing.T) {
	h := newHost(t)
	j := h.open()
	fast, slow := mustOpen(t, j, "fast", journal.FromNow), mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), a.event(&now, event.Modified), b.event(&now, event.Added))
	mustAppend(t, j, a.event(&now, event.Deleted), a.event(&now, event.Added), b.event(&now, event.Left))
	mustCommit(t, fast, 7) // with the copy of a's deletion
	until(t, "the position is saved", func() bool { return savedPosition(t, h, "fast") == 7 })
	if got := messages(t, h); got != 7 {
		t.Errorf("%d messages, want all 7: one cursor has not passed the deletions", got)
	}
	mustCommit(t, slow, 6)
	until(t, "a's history is gone", func() bool { return messages(t, h) == 4 })
	mustCommit(t, slow, 7)
	until(t, "b's history is gone", func() bool { return messages(t, h) == 3 })
	mustAppend(t, j, a.event(&now, event.Modified), b.event(&now, event.Entered))
	if got := show(read(t, mustOpen(t, j, "new", journal.FromSnapshot), 2)); got != describe("0 snapshot a-5:7", "9 snapshot b-3:8") {
		t.Errorf("snapshot:\n%s", got)
	}
}

// TestJanitorRemovesTombstones removes old deletions; what came back stays.
func TestJanitorRemovesTombstones(t *testing.T) {
	h := newHost(t)
	j := h.open(func(c *jetstream.Config) {
		c.ScanInterval, c.DeletedRetention = 50*time.Millisecond, 300*time.Millisecond
	})
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), a.event(&now, event.Deleted), a.event(&now, event.Added))
	mustAppend(t, j, b.event(&now, event.Added), b.event(&now, event.Deleted))
	mustCommit(t, c, 6) // with the copy of a's deletion
	until(t, "b is gone, a's deletion and its return are left", func() bool { return messages(t, h) == 2 })
	// b comes back although we remember a last message that is gone.
	mustAppend(t, j, b.event(&now, event.Added))
	names := map[string]event.Op{}
	if _, err := j.Restore(t.Context(), "core/configmaps", func(e event.Event) { names[e.Name] = e.Op }); err != nil {
		t.Fatal(err)
	}
	if len(names) != 2 || names["a"] != event.Added || names["b"] != event.Added {
		t.Errorf("restored %v", names)
	}
	mustClose(t, c)
	mustClose(t, j)
	c = mustOpen(t, h.open(), "bus", journal.FromNow)
	if got := show(read(t, c, 1)); got != describe("7 added "+b.uid+":6") {
		t.Errorf("entries:\n%s", got)
	}
}
