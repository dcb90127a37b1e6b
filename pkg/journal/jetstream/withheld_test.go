package jetstream_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestSyncedAfterALoss: of a snapshot that a sink was too slow for, the history limit has
// removed an event, as its object has changed often since. A consumer that completes the
// snapshot before it reads the changes would drop the object.
func TestSyncedAfterALoss(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	bound := func(op event.Op, run uint64) event.Event {
		e := event.Event{
			ID: fmt.Sprintf("core/configmaps:%d:synced", now.rv), Op: op, Cluster: "test", Target: "core/configmaps",
			Version: "v1", Resource: "configmaps", ResourceVersion: now.rv,
		}
		if op == event.Begin {
			e.ID = fmt.Sprintf("core/configmaps:%d:begin", now.rv)
		}
		e.SetRun(run)
		return e
	}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added))
	read(t, c, 2)
	mustCommit(t, c, 2)
	mustClose(t, c)

	mustAppend(t, j, bound(event.Begin, 7)) // 3
	mustAppend(t, j, a.event(&now, event.Snapshot), b.event(&now, event.Snapshot), bound(event.Synced, 7))
	for range 5 {
		mustAppend(t, j, a.event(&now, event.Modified)) // 7 to 11
	}
	mustClose(t, j)
	j = h.open(history(4))
	c = mustOpen(t, j, "bus", journal.FromNow)
	want := describe("0 gap bus:3-11:trimmed trimmed 2", "3 begin core/configmaps:2:begin:r7", "5 snapshot b-2:4",
		"0 modified a-1:6", "0 modified a-1:7", "0 modified a-1:8", "0 modified a-1:9", "11 synced core/configmaps:4:synced:r7")
	for _, again := range []string{"the first time", "after a crash"} {
		if diff := cmp.Diff(want, show(read(t, c, 8))); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", again, diff)
		}
		if again == "the first time" {
			mustClose(t, c)
			c = mustOpen(t, j, "bus", journal.FromNow)
		}
	}
	mustCommit(t, c, 11)

	// A snapshot that begins after the loss is whole.
	mustAppend(t, j, bound(event.Begin, 8), b.event(&now, event.Snapshot), bound(event.Synced, 8), a.event(&now, event.Modified))
	if diff := cmp.Diff(describe("12 begin core/configmaps:9:begin:r8", "13 snapshot b-2:10", "14 synced core/configmaps:10:synced:r8", "15 modified a-1:11"),
		show(read(t, c, 4))); diff != "" {
		t.Errorf("the next snapshot (-want +got):\n%s", diff)
	}
}

// TestSyncedAfterALossAndARestart: the loss is noticed and committed before the end of the
// snapshot is read, and the cursor is opened again in between.
func TestSyncedAfterALossAndARestart(t *testing.T) {
	const objects = 600 // more than two pulls
	h := newHost(t)
	j := h.open(history(4))
	mustClose(t, mustOpen(t, j, "bus", journal.FromNow))
	var now clock
	bound := func(op event.Op) event.Event {
		e := event.Event{Op: op, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps"}
		e.SetBound(op, 7, 1)
		return e
	}
	a := &object{name: "a"}
	mustAppend(t, j, bound(event.Begin), a.event(&now, event.Snapshot))
	for i := range objects {
		o := &object{name: fmt.Sprintf("o%d", i)}
		mustAppend(t, j, o.event(&now, event.Snapshot))
	}
	mustAppend(t, j, bound(event.Synced))
	for range 4 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	mustClose(t, j)
	j = h.open(history(4))
	c := mustOpen(t, j, "bus", journal.FromNow)
	first := read(t, c, 100)
	mustCommit(t, c, first[len(first)-1].Seq)
	mustClose(t, c)
	c = mustOpen(t, j, "bus", journal.FromNow)
	// The gap and the beginning were among the first.
	rest := read(t, c, 1+1+objects+4+1-len(first))
	last := rest[len(rest)-1]
	if last.Event.Op != event.Synced || last.Seq != objects+7 {
		t.Errorf("at last: %s", show(rest[len(rest)-6:]))
	}
}

// TestLossDuringASnapshot: an object changes during a snapshot, and that change is removed unread.
// The end of the snapshot comes after a later event of the object.
func TestLossDuringASnapshot(t *testing.T) {
	const others = 600 // more than two pulls, and more than the tail holds
	for name, begin := range map[string]func(t *testing.T, j *jetstream.Journal) journal.Cursor{
		"of a new sink": func(t *testing.T, j *jetstream.Journal) journal.Cursor {
			return mustOpen(t, j, "new", journal.FromSnapshot)
		},
		"for one sink": func(t *testing.T, j *jetstream.Journal) journal.Cursor {
			c := mustOpen(t, j, "bus", journal.FromNow)
			mustCommit(t, c, 3)
			mustResnapshot(t, c, again(7, "core/configmaps"))
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newHost(t).open(history(4))
			var now clock
			a, b, n := &object{name: "a"}, &object{name: "b"}, 0
			fill := func() {
				for range others {
					n++
					e := (&object{name: fmt.Sprintf("o%d", n)}).event(&now, event.Added)
					e.Data = fmt.Appendf(nil, `{"object":%q}`, bytes.Repeat([]byte("x"), 10<<10))
					mustAppend(t, j, e)
				}
			}
			synced := event.Event{ID: "core/configmaps:2:synced", Op: event.Synced, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", ResourceVersion: 2}
			mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added), synced)
			c := begin(t, j)
			fill()
			mustAppend(t, j, b.event(&now, event.Modified))
			if first := read(t, c, 1); first[0].Event.Op != event.Begin {
				t.Fatalf("at first: %s", show(first))
			}
			read(t, c, 50) // the end of the snapshot is to come after that event
			fill()
			for range 4 {
				mustAppend(t, j, b.event(&now, event.Modified))
			}
			mustAppend(t, j, a.event(&now, event.Modified))
			lost, came := false, false
			for {
				e := read(t, c, 1)[0].Event
				lost = lost || e.Op == event.Gap
				came = came || e.Name == "b"
				if e.Op == event.Synced {
					break
				}
			}
			if !lost || !came {
				t.Errorf("before the end of the snapshot: a gap: %t, the object: %t", lost, came)
			}
			silent(t, c)
		})
	}
}
