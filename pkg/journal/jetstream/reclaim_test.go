package jetstream_test

import (
	"context"
	"fmt"
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

// TestFullOfWhatASinkLacks: one object fills the journal with history that a sink has not read.
// The journal takes further events; what it removes of the history is declared by number.
func TestFullOfWhatASinkLacks(t *testing.T) {
	const total = 14 // 1.4 MB
	h := newHost(t)
	small := func(c *jetstream.Config) { c.MaxBytes, c.HistoryPerObject = 1<<20, 16 }
	j := h.open(small)
	mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	greedy := &object{name: "greedy"}
	for i := range total {
		e := greedy.event(&now, []event.Op{event.Added, event.Modified}[min(i, 1)])
		e.Data = noise(100 << 10)
		mustAppend(t, j, e)
	}
	dropped := j.Stats().Dropped["default"]
	mustClose(t, j)
	got := readAll(t, mustOpen(t, h.open(small), "slow", journal.FromNow), total)
	if dropped == 0 || got.trimmed < dropped || uint64(got.events["default"])+got.trimmed != total {
		t.Errorf("%d events were removed, the sink got %d and knows of %d that it lacks", dropped, got.events["default"], got.trimmed)
	}
}

// TestFullOfStates: the last event of an object is never removed, also if the journal is full of
// them.
func TestFullOfStates(t *testing.T) {
	h := newHost(t)
	j := h.open(func(c *jetstream.Config) { c.MaxBytes = 1 << 20 })
	c := mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		for i := range 14 {
			e := (&object{name: fmt.Sprint("o", i)}).event(&now, event.Added)
			e.Data = noise(100 << 10)
			if j.Append(ctx, []event.Event{e}) != nil {
				return
			}
		}
	}()
	until(t, "the journal is full", func() bool { return j.Stats().Blocked > 0 })
	if err := j.MakeSpace(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-appended
	stored := int(j.Stats().LastSeq)
	if got := readAll(t, c, stored); got.events["default"] != stored || got.trimmed != 0 || j.Stats().Dropped != nil {
		t.Errorf("of %d events a sink got %d, %d were trimmed", stored, got.events["default"], got.trimmed)
	}
}

// TestReclaimAsksForWhatIsThere: history that a sink has not read causes no requests. Of 50
// objects with history only one has some that the sink has passed.
func TestReclaimAsksForWhatIsThere(t *testing.T) {
	const others = 50
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "slow", journal.FromNow)
	var now clock
	had := &object{name: "had"}
	all := []event.Event{had.event(&now, event.Added), had.event(&now, event.Modified), had.event(&now, event.Modified)}
	for i := range others {
		o := &object{name: fmt.Sprint("unread-", i)}
		all = append(all, o.event(&now, event.Added), o.event(&now, event.Modified))
	}
	mustAppend(t, j, all...)
	mustCommit(t, c, 2)
	until(t, "the position is saved", func() bool { return jetstream.Durable(c) == 2 })
	watcher := h.connect()
	purges, err := watcher.SubscribeSync("$JS.API.STREAM.PURGE.>")
	if err == nil {
		err = watcher.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is left to remove
		if err := j.MakeSpace(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := watcher.Flush(); err != nil {
		t.Fatal(err)
	}
	sent, _, err := purges.Pending()
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Stats().Events; sent != 1 || got != uint64(len(all)-2) {
		t.Errorf("%d purges; %d events are left of %d, of which 2 were superseded and read", sent, got, len(all))
	}
}
