package jetstream_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestTrimmed restarts with a cursor whose history is gone in part.
func TestTrimmed(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	mustClose(t, mustOpen(t, j, "bus", journal.FromNow))
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added))
	for range 20 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	mustClose(t, j)
	j = h.open(history(4))
	c := mustOpen(t, j, "bus", journal.FromNow)
	want := describe("0 gap bus:1-22:trimmed trimmed 17", "2 added b-2:2",
		"19 modified a-1:19", "20 modified a-1:20", "21 modified a-1:21", "22 modified a-1:22")
	got := read(t, c, 6)
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Fatalf("entries (-want +got):\n%s", diff)
	}
	if gap := got[0].Event; gap.Target != "*" || gap.Cluster != "test" || gap.Gap.Recovered != event.RecoveredState {
		t.Errorf("gap = %+v", gap)
	}
	silent(t, c)
	mustCommit(t, c, 22)
	mustClose(t, c)
	c = mustOpen(t, j, "bus", journal.FromNow)
	silent(t, c)
	if got := c.Lag(); got != (journal.Lag{}) {
		t.Errorf("lag = %+v", got)
	}
}

// TestSnapshot opens new sinks on a log with a past.
func TestSnapshot(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a, b, d := &object{name: "a"}, &object{name: "b"}, &object{name: "d"}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added), d.event(&now, event.Added))
	mustAppend(t, j, a.event(&now, event.Modified), b.event(&now, event.Deleted))
	synced := event.Event{ID: "core/configmaps:5:synced", Op: event.Synced, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps", ResourceVersion: 5}
	mustAppend(t, j, synced)
	start := mustOpen(t, j, "now", journal.FromNow)
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	mustAppend(t, j, d.event(&now, event.Modified))
	const begin = "0 begin core/configmaps:5:begin"
	want := describe(begin, "0 snapshot a-1:4", "0 modified d-3:6", "7 synced core/configmaps:5:synced")
	wantQuiet := describe(begin, "0 snapshot d-3:3", "0 snapshot a-1:4", "0 modified d-3:6", "7 synced core/configmaps:5:synced")
	got := show(read(t, c, 4))
	if got != want {
		rest := show(read(t, c, 1))
		if got+rest != wantQuiet {
			t.Errorf("entries:\n%swant:\n%s", got+rest, want)
		}
	}
	if got := show(read(t, start, 1)); got != describe("7 modified d-3:6") {
		t.Errorf("the other sink got %s", got)
	}
	silent(t, start)
}

// TestSnapshotBreaksOff restarts in the middle of a snapshot.
func TestSnapshotBreaksOff(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	objects := make([]*object, 10)
	for i := range objects {
		objects[i] = &object{name: fmt.Sprint("o", i)}
		mustAppend(t, j, objects[i].event(&now, event.Added))
	}
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	read(t, c, 5)
	mustCommit(t, c, 3) // too early
	if _, err := rewind(t, c, time.Unix(0, 0)); err == nil {
		t.Error("Rewind in a snapshot works")
	}
	// o0 goes; o1 goes and comes back; o2 changes.
	uid0, uid1 := objects[0].uid, objects[1].uid
	mustAppend(t, j, objects[0].event(&now, event.Deleted), objects[1].event(&now, event.Deleted))
	mustAppend(t, j, objects[1].event(&now, event.Added), objects[2].event(&now, event.Modified))
	mustClose(t, j)
	j = h.open()
	c = mustOpen(t, j, "bus", journal.FromNow)
	want := []string{"0 deleted " + uid0 + ":deleted", "0 deleted " + uid1 + ":deleted"}
	for _, o := range objects[3:] {
		want = append(want, fmt.Sprintf("0 snapshot %s:%d", o.uid, o.prev))
	}
	want = append(want, "0 snapshot "+objects[1].uid+":13", "15 snapshot "+objects[2].uid+":14")
	if diff := cmp.Diff(describe(want...), show(read(t, c, len(want)))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	mustCommit(t, c, 15) // with the copy of o1's deletion
	mustClose(t, j)
	c = mustOpen(t, h.open(), "bus", journal.FromSnapshot)
	silent(t, c)
}

// TestSnapshotOfNothing opens a new sink where everything is deleted.
func TestSnapshotOfNothing(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added), a.event(&now, event.Deleted))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	silent(t, c)
	if got := c.Lag(); got != (journal.Lag{}) {
		t.Errorf("lag = %+v", got)
	}
	mustAppend(t, j, a.event(&now, event.Added))
	if got := show(read(t, c, 1)); got != describe("3 added a-3:3") {
		t.Errorf("entries: %s", got)
	}
}

// TestLagOfANewSink: events that left the journal before the sink was new, and the time before
// it, are no lag.
func TestLagOfANewSink(t *testing.T) {
	h := newHost(t)
	j := h.open(history(2))
	var now clock
	a := &object{name: "a"}
	for range 30 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	mustClose(t, j)
	j = h.open(history(2)) // which asks what the stream has
	before := time.Now()
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	if got := c.Lag(); got.Events < 1 || got.Events > 2 || got.Seconds > time.Since(before).Seconds() {
		t.Errorf("lag = %+v, want at most 2 events and the age of the sink", got)
	}
}

// TestRewindable: a cursor announces that it refuses a rewind until its first snapshot is committed.
func TestRewindable(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	mustAppend(t, j, (&object{name: "a"}).event(&now, event.Added))
	c := mustOpen(t, j, "bus", journal.FromSnapshot)
	if err := c.Rewindable(); !errors.Is(err, journal.ErrFirstSnapshot) {
		t.Errorf("during the first snapshot: %v, want ErrFirstSnapshot", err)
	}
	mustCommit(t, c, read(t, c, 1)[0].Seq)
	if err := c.Rewindable(); err != nil {
		t.Errorf("after the first snapshot: %v", err)
	}
}

func TestRewind(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	<-time.After(20 * time.Millisecond)
	since := time.Now()
	mustAppend(t, j, a.event(&now, event.Modified), a.event(&now, event.Modified), a.event(&now, event.Modified))
	read(t, c, 4)
	mustCommit(t, c, 3)
	n, err := rewind(t, c, since)
	if n != 2 || err != nil {
		t.Fatalf("Rewind = %d, %v; want 2 events", n, err)
	}
	if got := c.Lag().Events; got != 3 {
		t.Errorf("lag = %d, want 3", got)
	}
	want := describe("2 modified a-1:2:r", "3 modified a-1:3:r", "4 modified a-1:4")
	if diff := cmp.Diff(want, show(read(t, c, 3))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	mustCommit(t, c, 2)
	mustClose(t, j)
	j = h.open()
	c = mustOpen(t, j, "bus", journal.FromNow)
	mustAppend(t, j, a.event(&now, event.Modified))
	want = describe("3 modified a-1:3:r", "4 modified a-1:4", "5 modified a-1:5")
	if diff := cmp.Diff(want, show(read(t, c, 3))); diff != "" {
		t.Errorf("entries after a restart (-want +got):\n%s", diff)
	}
	mustCommit(t, c, 5)
	if n, err := rewind(t, c, time.Unix(0, 0)); n != 5 || err != nil {
		t.Errorf("Rewind to the beginning = %d, %v", n, err)
	}
	if got := read(t, c, 5); show(got) != describe("1 added a-1:1:r", "2 modified a-1:2:r", "3 modified a-1:3:r", "4 modified a-1:4:r", "5 modified a-1:5:r") {
		t.Errorf("entries:\n%s", show(got))
	}
	mustCommit(t, c, 5)
	if n, err := rewind(t, c, time.Now().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("Rewind to the future = %d, %v", n, err)
	}
	mustClose(t, c)
	if _, err := rewind(t, c, since); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Rewind of a closed cursor = %v", err)
	}
}

// holder holds the next write with a text back.
type holder struct {
	text  []byte
	armed atomic.Bool
	// holds gets a value when there is one, which goOn lets go.
	holds, goOn chan struct{}
}

// holding is a connection with a holder.
type holding struct {
	net.Conn
	*holder
}

func (h holding) Write(b []byte) (int, error) {
	if bytes.Contains(b, h.text) && h.armed.CompareAndSwap(true, false) {
		h.holds <- struct{}{}
		<-h.goOn
	}
	return h.Conn.Write(b)
}

// TestRewindAgainstSave: a save of the position that begins while a rewind is stored does not
// write the older position behind it.
func TestRewindAgainstSave(t *testing.T) {
	h := newHost(t)
	h.shared()
	held := &holder{text: []byte("PUB INFORMD_STATE.sink.bus "), holds: make(chan struct{}), goOn: make(chan struct{})}
	h.filter = func(conn net.Conn) net.Conn { return holding{conn, held} }
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	noter, ok := c.(journal.Noter)
	if !ok {
		t.Fatal("the cursor keeps no note")
	}
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added), a.event(&now, event.Modified), a.event(&now, event.Modified))
	read(t, c, 3)
	mustCommit(t, c, 2)
	type position struct {
		Last, Run uint64
		Note      string
	}
	stored := func() (at position) {
		record(t, h, "sink.bus", &at)
		return at
	}
	until(t, "the position is saved", func() bool { return stored().Last == 2 })

	held.armed.Store(true)
	rewound := make(chan error, 1)
	go func() {
		_, err := rewind(t, c, time.Unix(0, 0))
		rewound <- err
	}()
	<-held.holds
	noter.SetNote("note")
	mustCommit(t, c, 3)
	until(t, "the position is to be saved", func() bool { return jetstream.Saving(c) })
	close(held.goOn)
	if err := <-rewound; err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is being saved", func() bool { return !jetstream.Saving(c) })
	if at := stored(); at.Last != 0 || at.Run == 0 {
		t.Errorf("after a rewind to the beginning the record is %+v", at)
	}
	until(t, "the note is saved", func() bool { return stored().Note == "note" })
	if at := stored(); at.Last != 0 || at.Run == 0 {
		t.Errorf("with the note the record is %+v", at)
	}
}

func TestCommitBeyondTheEnd(t *testing.T) {
	j := newHost(t).open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	if err := c.Commit(t.Context(), 2); err == nil {
		t.Error("a commit beyond the end was accepted")
	}
}

// TestForeign has a message in the stream that is no event.
func TestForeign(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added))
	if _, err := h.shared().Publish(t.Context(), "k8s.test.core.configmaps.default.b", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, b.event(&now, event.Added))
	if got := show(read(t, c, 2)); got != describe("1 added a-1:1", "3 added b-2:2") {
		t.Errorf("entries:\n%s", got)
	}
	if got := j.Stats().Foreign; got != 1 {
		t.Errorf("foreign = %d, want 1", got)
	}
}

// TestTargetOfOneNamespace reads back what is not in the event's own headers.
func TestTargetOfOneNamespace(t *testing.T) {
	h := newHost(t)
	j := h.open()
	var now clock
	a := &object{name: "a"}
	e := a.event(&now, event.Added)
	e.Target = "core/configmaps@default"
	mustAppend(t, j, e)
	mustClose(t, j)
	j = h.open()
	got := read(t, mustOpen(t, j, "bus", journal.FromSnapshot), 1)[0].Event
	e.Op = event.Snapshot
	e.SetRun(got.Run)
	if diff := cmp.Diff(e, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if got.Op != event.Snapshot {
		t.Errorf("op = %s", got.Op)
	}
}

func TestLagSeconds(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	started := time.Now()
	mustAppend(t, j, a.event(&now, event.Added))
	check := func(c journal.Cursor) {
		t.Helper()
		<-time.After(30 * time.Millisecond)
		if got := c.Lag(); got.Events != 1 || got.Seconds < 0.03 || got.Seconds > time.Since(started).Seconds() {
			t.Errorf("lag = %+v after %v", got, time.Since(started))
		}
	}
	check(c)
	mustClose(t, j)
	c = mustOpen(t, h.open(), "bus", journal.FromNow)
	read(t, c, 1)
	check(c)
}

func rewind(t *testing.T, c journal.Cursor, since time.Time) (uint64, error) {
	t.Helper()
	r, ok := c.(journal.Rewinder)
	if !ok {
		t.Fatal("the cursor cannot go back")
	}
	return r.Rewind(t.Context(), since)
}
