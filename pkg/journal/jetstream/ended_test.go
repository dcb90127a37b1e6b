package jetstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// reuse appends a deletion, a new object of the same name, and so many changes of
// it that the limit of four events removes the deletion.
func reuse(t *testing.T, j *jetstream.Journal, now *clock, o *object) {
	t.Helper()
	mustAppend(t, j, o.event(now, event.Deleted))
	mustAppend(t, j, o.event(now, event.Added))
	for range 4 {
		mustAppend(t, j, o.event(now, event.Modified))
	}
}

// scanning has the janitor look through everything all the time.
func scanning(c *jetstream.Config) { c.ScanInterval = 50 * time.Millisecond }

// TestEndsAreNotTrimmed has a sink that is down while names are used again and
// again: it gets every deletion, each before the object that follows, once.
func TestEndsAreNotTrimmed(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	// The fast one keeps up, so that copies are none of its business.
	slow, fast := mustOpen(t, j, "slow", journal.FromNow), mustOpen(t, j, "fast", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added)) // sequence 1, revision 1
	reuse(t, j, &now, a)                         // 2, the copy 3, 4-8; revisions 2-7
	reuse(t, j, &now, a)                         // 9, the copy 10, 11-15; revisions 8-13
	if got := show(read(t, fast, 13)); got != describe("1 added a-1:1", "2 deleted a-1:deleted",
		"4 added a-3:3", "5 modified a-3:4", "6 modified a-3:5", "7 modified a-3:6", "8 modified a-3:7", "9 deleted a-3:deleted",
		"11 added a-9:9", "12 modified a-9:10", "13 modified a-9:11", "14 modified a-9:12", "15 modified a-9:13") {
		t.Errorf("the sink that kept up got\n%s", got)
	}
	// The one that was down reads the stream, as the log is not in memory any more.
	mustClose(t, slow)
	mustClose(t, fast)
	mustClose(t, j)
	j = h.open(history(4), scanning)
	slow, fast = mustOpen(t, j, "slow", journal.FromNow), mustOpen(t, j, "fast", journal.FromNow)
	want := describe("0 gap slow:1-15:trimmed trimmed 9", "3 deleted a-1:deleted", "10 deleted a-3:deleted",
		"12 modified a-9:10", "13 modified a-9:11", "14 modified a-9:12", "15 modified a-9:13")
	got := read(t, slow, 7)
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Errorf("the sink that was down (-want +got):\n%s", diff)
	}
	if string(got[1].Event.Data) != `{"object":{"rv":2}}` || got[1].Event.Ordinal != 2 {
		t.Errorf("the copy is %+v", got[1].Event)
	}
	silent(t, slow)

	// The first deletion is through, then informd is killed. What is committed does
	// not come again, the rest does.
	mustCommit(t, slow, 3)
	until(t, "the position is saved", func() bool { return savedPosition(t, h, "slow") == 3 })
	mustClose(t, slow)
	slow = mustOpen(t, j, "slow", journal.FromNow)
	if got := show(read(t, slow, 6)); got != describe("0 gap slow:4-15:trimmed trimmed 7", "10 deleted a-3:deleted",
		"12 modified a-9:10", "13 modified a-9:11", "14 modified a-9:12", "15 modified a-9:13") {
		t.Errorf("after a restart:\n%s", got)
	}
	mustCommit(t, slow, 15)
	mustCommit(t, fast, 15)
	until(t, "the copies are gone", func() bool { return messages(t, h) == 4 })
	mustAppend(t, j, a.event(&now, event.Modified))
	if got := show(read(t, slow, 1)); got != describe("16 modified a-9:14") {
		t.Errorf("afterwards:\n%s", got)
	}
}

// TestCopyBehindWhatWasRead reads an end from the stream before it is trimmed: its
// copy, which comes when the cursor has reached the tail, is not delivered.
func TestCopyBehindWhatWasRead(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustOpen(t, j, "bus", journal.FromNow)
	mustAppend(t, j, b.event(&now, event.Added))
	for range 5 {
		mustAppend(t, j, b.event(&now, event.Modified)) // two of six are trimmed
	}
	mustAppend(t, j, a.event(&now, event.Added), a.event(&now, event.Deleted))
	mustClose(t, j)
	j = h.open(history(4), scanning)
	c := mustOpen(t, j, "bus", journal.FromNow)
	if got := show(read(t, c, 7)); got != describe("0 gap bus:1-8:trimmed trimmed 2", "3 modified b-1:3", "4 modified b-1:4",
		"5 modified b-1:5", "6 modified b-1:6", "7 added a-7:7", "8 deleted a-7:deleted") {
		t.Fatalf("entries:\n%s", got)
	}
	// Nothing is committed, so that the deletion is copied.
	if _, err := j.Restore(t.Context(), "core/configmaps", func(event.Event) {}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, a.event(&now, event.Added))
	if got := show(read(t, c, 1)); got != describe(fmt.Sprintf("10 added %s:9", a.uid)) {
		t.Errorf("entries:\n%s", got)
	}
	mustCommit(t, c, 10)
	until(t, "the copy is gone", func() bool { return messages(t, h) == 7 })
}

// TestCopyThatIsReadAgain: a copy was left out, as the deletion itself had been read. When all
// is read again the deletion is gone, so that the copy counts: a commit of what comes before
// it does not pass it.
func TestCopyThatIsReadAgain(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), a.event(&now, event.Deleted), b.event(&now, event.Added))
	mustAppend(t, j, a.event(&now, event.Added)) // 5, behind the copy, 4
	for range 4 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	if got := show(read(t, c, 8)); !strings.Contains(got, "2 deleted a-1:deleted") {
		t.Fatalf("entries:\n%s", got)
	}
	for i := range 6 { // the tail, which has the deletion still, moves on
		large := (&object{name: fmt.Sprint("c", i)}).event(&now, event.Added)
		large.Data = []byte(`{"object":"` + strings.Repeat("x", 900_000) + `"}`)
		mustAppend(t, j, large)
	}
	if err := c.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := show(read(t, c, 2)); !strings.Contains(got, "trimmed") || !strings.Contains(got, "3 added b-3:3") {
		t.Fatalf("entries:\n%s", got)
	}
	mustCommit(t, c, 3)
	if got := show(read(t, c, 1)); got != describe("4 deleted a-1:deleted") {
		t.Errorf("then comes:\n%s", got)
	}
}

// TestCopyBehindWhatWasCommitted opens or resets a cursor after the sink has committed a
// deletion behind a jump and before it has passed the copy, which is there for another sink:
// the deletion does not come again.
func TestCopyBehindWhatWasCommitted(t *testing.T) {
	for name, again := range map[string]func(*jetstream.Journal, journal.Cursor) journal.Cursor{
		"restart": func(j *jetstream.Journal, bus journal.Cursor) journal.Cursor {
			mustClose(t, bus)
			return mustOpen(t, j, "bus", journal.FromNow)
		},
		"reset": func(_ *jetstream.Journal, bus journal.Cursor) journal.Cursor {
			if err := bus.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			return bus
		},
	} {
		t.Run(name, func(t *testing.T) { copyBehindWhatWasCommitted(t, again) })
	}
}

// trimAndDelete opens the sinks bus and slow, trims two events of b and ends a, at sequence 8.
func trimAndDelete(t *testing.T, j *jetstream.Journal, now *clock, a, b *object) {
	t.Helper()
	mustOpen(t, j, "bus", journal.FromNow)
	mustOpen(t, j, "slow", journal.FromNow)
	mustAppend(t, j, b.event(now, event.Added))
	for range 5 {
		mustAppend(t, j, b.event(now, event.Modified)) // two of six are trimmed
	}
	mustAppend(t, j, a.event(now, event.Added), a.event(now, event.Deleted))
}

func copyBehindWhatWasCommitted(t *testing.T, again func(*jetstream.Journal, journal.Cursor) journal.Cursor) {
	t.Helper()
	h := newHost(t)
	j := h.open(history(4))
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	trimAndDelete(t, j, &now, a, b)
	mustAppend(t, j, b.event(&now, event.Modified))
	mustClose(t, j)
	j = h.open(history(4), scanning)
	bus := mustOpen(t, j, "bus", journal.FromNow)
	mustOpen(t, j, "slow", journal.FromNow)
	if got := show(read(t, bus, 7)); !strings.Contains(got, "8 deleted a-7:deleted") {
		t.Fatalf("entries:\n%s", got)
	}
	mustCommit(t, bus, 8)
	until(t, "the position is saved", func() bool { return savedPosition(t, h, "bus") == 8 })
	if _, err := j.Restore(t.Context(), "core/configmaps", func(event.Event) {}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, a.event(&now, event.Added)) // behind the copy, 10
	bus = again(j, bus)
	if got := show(read(t, bus, 2)); got != describe("9 modified b-1:9", fmt.Sprintf("11 added %s:10", a.uid)) {
		t.Errorf("then comes:\n%s", got)
	}
}

// TestCopyAtTheEnd: a copy behind which nothing comes, as informd died over it,
// leaves no sink behind.
func TestCopyAtTheEnd(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a := &object{name: "a"}
	c := mustOpen(t, j, "bus", journal.FromNow)
	mustAppend(t, j, a.event(&now, event.Added))
	gone := a.event(&now, event.Deleted)
	mustAppend(t, j, gone)
	stream, err := h.shared().Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	original, err := stream.GetMsg(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: "k8s.test._informd.ended.x", Header: nats.Header{"informd-copy-of": {"2"}}, Data: original.Data}
	for name, values := range original.Header {
		if !strings.HasPrefix(name, "Nats-") {
			m.Header[name] = values
		}
	}
	if _, err := h.shared().PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, c, read(t, c, 2)[1].Seq)
	reading, end := context.WithCancel(t.Context())
	defer end()
	go func() {
		if entries, err := c.Read(reading, 10); err == nil {
			t.Errorf("there is more to read:\n%s", show(entries))
		}
	}()
	until(t, "the copy is found and passed", func() bool { return j.Stats().LastSeq == 3 && c.Lag() == (journal.Lag{}) })
	until(t, "the position is saved", func() bool { return savedPosition(t, h, "bus") == 3 })
}

// TestNoCopyWithoutNeed: an end that every sink has passed is not copied, and
// neither is any if there are no sinks.
func TestNoCopyWithoutNeed(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added), a.event(&now, event.Deleted), a.event(&now, event.Added))
	c := mustOpen(t, j, "bus", journal.FromNow)
	mustAppend(t, j, a.event(&now, event.Deleted))
	mustCommit(t, c, 4)
	until(t, "what the deletion left is gone", func() bool { return messages(t, h) == 1 })
	mustAppend(t, j, a.event(&now, event.Added))
	if last := j.Stats().LastSeq; last != 5 {
		t.Errorf("the log ends at %d, want 5: there is a copy", last)
	}
}

// TestCopyOfALargeEnd copies a deletion whose object is in the object store, and
// one that does not fit any more since the limit was lowered.
func TestCopyOfALargeEnd(t *testing.T) {
	h := newHostWith(t, 64<<10)
	j := h.open(history(1))
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	large := a.event(&now, event.Added)
	mustAppend(t, j, large)
	gone := a.event(&now, event.Deleted)
	gone.Data = noise(200_000)
	mustAppend(t, j, gone, a.event(&now, event.Added))
	mustAppend(t, j, b.event(&now, event.Added))
	other := b.event(&now, event.Deleted)
	other.Data = noise(40_000)
	mustAppend(t, j, other)
	h.payload = 32 << 10
	h.stop()
	h.start()
	until(t, "the connection is back", func() bool {
		_, _, err := j.Last(t.Context(), &other)
		return err == nil
	})
	mustAppend(t, j, b.event(&now, event.Added))
	if err := j.SweepObjects(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	mustClose(t, c)
	mustClose(t, j)
	j = h.open(history(1))
	c = mustOpen(t, j, "bus", journal.FromNow)
	ends := map[string]int{}
	for _, e := range read(t, c, 5) {
		if e.Event.Op == event.Deleted {
			ends[e.Event.Name] = len(e.Event.Data)
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 200_000, "b": 0}, ends); diff != "" {
		t.Errorf("bytes of the deletions' objects (-want +got):\n%s", diff)
	}
}

// TestSnapshotAfterTrimming breaks a snapshot off, trims the deletion of what it
// had announced, and begins anew: the deletion still comes.
func TestSnapshotAfterTrimming(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	read(t, c, 1)
	reuse(t, j, &now, a)
	mustClose(t, c)
	c = mustOpen(t, j, "bus", journal.FromSnapshot)
	got := show(read(t, c, 4))
	want := describe("0 deleted a-1:deleted", "0 gap bus:3-9:trimmed trimmed 2", "0 snapshot b-2:2", "9 snapshot a-4:8")
	if got != want {
		t.Errorf("entries:\n%s\nwant\n%s", got, want)
	}
	mustCommit(t, c, 9)
	until(t, "the copy is gone", func() bool { return messages(t, h) == 5 })
}
