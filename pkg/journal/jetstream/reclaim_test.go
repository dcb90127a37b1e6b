package jetstream_test

import (
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestFullOfWhatSinksHave: objects whose history is larger than the stream stop no other while
// the sinks keep up. What an object's history ends with stays.
func TestFullOfWhatSinksHave(t *testing.T) {
	h := newHost(t)
	j := h.open(func(c *jetstream.Config) { c.MaxBytes, c.HistoryPerObject = 1<<20, 16 })
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	greedy, other := &object{name: "greedy"}, &object{name: "other"}
	mustAppend(t, j, other.event(&now, event.Added))
	last := read(t, c, 1)[0].Seq
	began := time.Now()
	for i := range 14 { // 1.4 MB
		e := greedy.event(&now, []event.Op{event.Added, event.Modified}[min(i, 1)])
		e.Data = noise(100 << 10)
		mustAppend(t, j, e)
		last = read(t, c, 1)[0].Seq
		mustCommit(t, c, last)
	}
	mustAppend(t, j, other.event(&now, event.Modified))
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("that took %v", took)
	}
	if got := read(t, c, 1)[0]; got.Event.Name != "other" || got.Seq != last+1 {
		t.Errorf("read %s at %d", got.Event.ID, got.Seq)
	}
	states := map[string]uint64{}
	if _, err := j.Restore(t.Context(), "core/configmaps", func(e event.Event) { states[e.Name] = e.Ordinal }); err != nil {
		t.Fatal(err)
	}
	if states["greedy"] != 14 || states["other"] != 2 {
		t.Errorf("restored %v", states)
	}
}

// TestFullOfWhatASinkLacks: nothing is removed that a sink has not read; when it has, the
// journal takes events again.
func TestFullOfWhatASinkLacks(t *testing.T) {
	h := newHost(t)
	j := h.open(func(c *jetstream.Config) { c.MaxBytes, c.HistoryPerObject = 1<<20, 16 })
	fast, slow := mustOpen(t, j, "fast", journal.FromNow), mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	greedy := &object{name: "greedy"}
	appended := make(chan error, 1)
	var events []event.Event
	for i := range 14 {
		e := greedy.event(&now, []event.Op{event.Added, event.Modified}[min(i, 1)])
		e.Data = noise(100 << 10)
		events = append(events, e)
	}
	go func() {
		for _, e := range events {
			if err := j.Append(t.Context(), []event.Event{e}); err != nil {
				appended <- err
				return
			}
		}
		appended <- nil
	}()
	until(t, "the journal is full", func() bool { return j.Stats().Blocked > 0 })
	mustCommit(t, fast, j.Stats().LastSeq)
	for i := range events {
		got := read(t, slow, 1)[0]
		if got.Event.ID != events[i].ID || len(got.Event.Data) != 100<<10 {
			t.Fatalf("event %d is %s with %d bytes", i, got.Event.ID, len(got.Event.Data))
		}
		mustCommit(t, slow, got.Seq)
		mustCommit(t, fast, got.Seq)
	}
	if err := <-appended; err != nil {
		t.Error(err)
	}
}
