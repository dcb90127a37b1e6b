package jetstream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// bound is the beginning or the end of a first list.
func bound(op event.Op, target string, run uint64) event.Event {
	e := event.Event{Cluster: "test", Target: target, Version: "v1", Resource: "configmaps", Kind: "ConfigMap"}
	e.SetBound(op, run, 5)
	return e
}

// TestSnapshotIsARun: what a new sink gets first is a snapshot of its own, with a run that
// differs each time.
func TestSnapshotIsARun(t *testing.T) {
	j := newHost(t).open()
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), a.event(&now, event.Added), b.event(&now, event.Added), bound(event.Synced, "core/configmaps", 3))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	run := uint64(0)
	for range 2 {
		entries := read(t, c, 4)
		if got, want := show(entries), describe("0 begin core/configmaps:5:begin", "0 snapshot a-1:1", "0 snapshot b-2:2", "4 synced core/configmaps:5:synced"); got != want {
			t.Errorf("entries:\n%swant:\n%s", got, want)
		}
		for i := range entries {
			if e := &entries[i].Event; e.Run != entries[0].Event.Run || e.Replay {
				t.Errorf("%s %s: run %d, replay %t", e.Op, e.ID, e.Run, e.Replay)
			}
		}
		if entries[0].Event.Run <= run {
			t.Errorf("run %d after %d", entries[0].Event.Run, run)
		}
		run = entries[0].Event.Run
		if err := c.Reset(t.Context()); err != nil { // nothing was committed: it begins again
			t.Fatal(err)
		}
	}
}

// TestSnapshotOfADamagedLog: objects may be missing from the snapshot of a log that has lost events. Its
// end comes when the target has announced all of them again.
func TestSnapshotOfADamagedLog(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), a.event(&now, event.Added), bound(event.Synced, "core/configmaps", 3))
	if err := j.Mark(t.Context(), "core/configmaps", []byte("here")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	mustClose(t, h.open(func(c *jetstream.Config) { c.Distrust = true }))
	j = h.open() // the loss is known across restarts, also when a list has begun
	if err := j.Mark(t.Context(), "core/configmaps", []byte("there")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	j = h.open()
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	if got, want := show(read(t, c, 2)), describe("0 begin core/configmaps:5:begin", "3 snapshot a-1:1"); got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
	silent(t, c)
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 4))
	amid := mustOpen(t, j, "amid", journal.FromSnapshot)
	if got, want := show(read(t, amid, 2)), describe("0 begin core/configmaps:5:begin:r4", "4 snapshot a-1:1:r4"); got != want {
		t.Errorf("entries of a sink that begins amid the list:\n%swant:\n%s", got, want)
	}
	mustAppend(t, j, b.event(&now, event.Added), bound(event.Synced, "core/configmaps", 4))
	if got, want := show(read(t, c, 3)), describe("4 begin core/configmaps:5:begin:r4", "5 added b-2:2", "6 synced core/configmaps:5:synced:r4"); got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
	if got, want := show(read(t, amid, 2)), describe("5 added b-2:2", "6 synced core/configmaps:5:synced:r4"); got != want {
		t.Errorf("entries of a sink that begins amid the list:\n%swant:\n%s", got, want)
	}
	later := mustOpen(t, j, "later", journal.FromSnapshot)
	if got, want := show(read(t, later, 4)), describe("0 begin core/configmaps:5:begin", "0 snapshot a-1:1", "0 snapshot b-2:2", "6 synced core/configmaps:5:synced"); got != want {
		t.Errorf("entries of a later sink:\n%swant:\n%s", got, want)
	}
}

// TestSnapshotAfterTheStatesAreLost: if only the records are lost, targets announce nothing again.
// The snapshot of a new sink has its end, unless the log had lost events before.
func TestSnapshotAfterTheStatesAreLost(t *testing.T) {
	for name, damaged := range map[string]bool{"sound": false, "damaged": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			j := h.open()
			var now clock
			a := &object{name: "a"}
			mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), a.event(&now, event.Added), bound(event.Synced, "core/configmaps", 3))
			for _, note := range []string{"here", "there"} {
				if err := j.Mark(t.Context(), "core/configmaps", []byte(note)); err != nil {
					t.Fatal(err)
				}
				mustClose(t, j)
				j = h.open(func(c *jetstream.Config) { c.Distrust = damaged && note == "here" })
			}
			h.remove("INFORMD_STATE")
			failed(t, j)
			mustClose(t, j)
			next := h.open(func(c *jetstream.Config) { c.Replaces = j })
			c := mustOpen(t, next, "bus", journal.FromSnapshot)
			if damaged {
				if got, want := show(read(t, c, 2)), describe("0 begin core/configmaps:5:begin", "3 snapshot a-1:1"); got != want {
					t.Errorf("entries:\n%swant:\n%s", got, want)
				}
				silent(t, c)
				return
			}
			if got, want := show(read(t, c, 3)), describe("0 begin core/configmaps:5:begin", "0 snapshot a-1:1", "3 synced core/configmaps:5:synced"); got != want {
				t.Errorf("entries:\n%swant:\n%s", got, want)
			}
		})
	}
}

// TestLossInAStreamThatIsGone: the sequences of a new stream of events begin again, so a loss in
// the one before says nothing about them.
func TestLossInAStreamThatIsGone(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a := &object{name: "a"}
	announce := func() {
		mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), a.event(&now, event.Added), bound(event.Synced, "core/configmaps", 3))
		if err := j.Mark(t.Context(), "core/configmaps", []byte("here")); err != nil {
			t.Fatal(err)
		}
	}
	announce()
	mustClose(t, j)
	mustClose(t, h.open(func(c *jetstream.Config) { c.Distrust = true }))
	h.remove("INFORMD")
	j = h.open()
	announce()
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	if got, want := show(read(t, c, 3)), describe("0 begin core/configmaps:5:begin", "0 snapshot a-2:2", "3 synced core/configmaps:5:synced"); got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
}

// TestSnapshotAmidChanges: an object that changes while a new sink gets its snapshot has an
// event ahead of the end, of the snapshot's run or without a run; one that is deleted
// meanwhile is deleted at the end. So a consumer that takes the end for the word that all
// others are gone has what exists.
func TestSnapshotAmidChanges(t *testing.T) {
	j := newHost(t).open()
	var now clock
	a, b, d, e := &object{name: "a"}, &object{name: "b"}, &object{name: "d"}, &object{name: "e"}
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), a.event(&now, event.Added), b.event(&now, event.Added),
		d.event(&now, event.Added), e.event(&now, event.Added), bound(event.Synced, "core/configmaps", 3))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	mustAppend(t, j, a.event(&now, event.Modified), b.event(&now, event.Deleted), d.announcedAgain(5000), d.announcedAgain(6000))
	begin := read(t, c, 1)[0].Event
	exists := make(map[string]bool)
	var last journal.Entry
	for last.Event.Op != event.Synced {
		last = read(t, c, 1)[0]
		if x := &last.Event; x.Op.Control() || x.Run != 0 && x.Run != begin.Run {
			continue
		}
		exists[last.Event.Name] = !last.Event.Op.Ends()
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": false, "d": true, "e": true}, exists); diff != "" {
		t.Errorf("what exists at the end (-want +got):\n%s", diff)
	}
	if last.Event.Run != begin.Run || last.Seq != 10 {
		t.Errorf("the end is %+v of run %d", last, begin.Run)
	}
	mustCommit(t, c, last.Seq)
	mustAppend(t, j, a.event(&now, event.Modified))
	if got := show(read(t, c, 1)); got != describe("11 modified a-1:7") {
		t.Errorf("then came %s", got)
	}
	silent(t, c)
}

// TestSnapshotAmidManyChanges: the end of a snapshot comes behind all that was appended while
// it was read, also if the newest of that is in memory.
func TestSnapshotAmidManyChanges(t *testing.T) {
	const many = 600 // more than one reading of the stream
	j := newHost(t).open()
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), a.event(&now, event.Added), bound(event.Synced, "core/configmaps", 3))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	for i := range many {
		mustAppend(t, j, (&object{name: fmt.Sprint("new-", i)}).event(&now, event.Added))
	}
	mustAppend(t, j, a.event(&now, event.Modified))
	last := ""
	for {
		e := read(t, c, 1)[0].Event
		if e.Op == event.Synced {
			break
		}
		last = e.Name
	}
	if last != "a" {
		t.Errorf("the snapshot ends behind %q", last)
	}
}

// TestSnapshotBreaksOffAmidChanges: a sink that has the states and not all that changed
// meanwhile begins again.
func TestSnapshotBreaksOffAmidChanges(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), a.event(&now, event.Added), b.event(&now, event.Added), bound(event.Synced, "core/configmaps", 3))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	for range 3 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	want := describe("0 begin core/configmaps:5:begin", "0 snapshot b-2:2", "0 modified a-1:3", "0 modified a-1:4")
	if diff := cmp.Diff(want, show(read(t, c, 4))); diff != "" {
		t.Errorf("entries of the first attempt (-want +got):\n%s", diff)
	}
	mustCommit(t, c, 5) // too early
	mustAppend(t, j, b.event(&now, event.Deleted))
	mustClose(t, j)
	c = mustOpen(t, h.open(), "bus", journal.FromSnapshot)
	want = describe("0 deleted b-2:deleted", "0 begin core/configmaps:5:begin", "0 snapshot a-1:5", "8 synced core/configmaps:5:synced")
	if diff := cmp.Diff(want, show(read(t, c, 4))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	silent(t, c)
}

// TestSnapshotInAFirstList: a sink that is new while a target's first list is under way
// gets the beginning of that list, and its end from the log.
func TestSnapshotInAFirstList(t *testing.T) {
	j := newHost(t).open()
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	first := a.event(&now, event.Added)
	first.SetRun(3)
	mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), first)
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	second := b.event(&now, event.Added)
	second.SetRun(3)
	mustAppend(t, j, second, bound(event.Synced, "core/configmaps", 3))
	got := show(read(t, c, 4))
	want := describe("0 begin core/configmaps:5:begin:r3", "2 snapshot a-1:1:r3", "3 added b-2:2:r3", "4 synced core/configmaps:5:synced:r3")
	if got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
}

// TestRewindLeavesBoundsOut: what a rewind reads is not all that there is, so that it has
// neither the beginning nor the end of a snapshot, and commits pass over them.
func TestRewindLeavesBoundsOut(t *testing.T) {
	for name, restart := range map[string]bool{"from the newest events": false, "from the stream": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			j := h.open()
			var now clock
			a := &object{name: "a"}
			c := mustOpen(t, j, "bus", journal.FromNow)
			first := a.event(&now, event.Added)
			first.SetRun(3)
			mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), first, a.event(&now, event.Modified), bound(event.Synced, "core/configmaps", 3))
			read(t, c, 4)
			mustCommit(t, c, 4)
			if _, err := rewind(t, c, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			if restart {
				mustClose(t, j)
				j = h.open()
				c = mustOpen(t, j, "bus", journal.FromNow)
			}
			entries := read(t, c, 2)
			if got, want := show(entries), describe("2 added a-1:1:r", "3 modified a-1:2:r"); got != want {
				t.Errorf("entries:\n%swant:\n%s", got, want)
			}
			if x, y := &entries[0].Event, &entries[1].Event; x.Run == 0 || x.Run == 3 || x.Run != y.Run || !x.Redelivered || !y.Redelivered {
				t.Errorf("runs %d and %d", x.Run, y.Run)
			}
			silent(t, c)
			mustCommit(t, c, 3)
			if lag := c.Lag().Events; lag != 0 {
				t.Errorf("%d events behind", lag)
			}
		})
	}
}
