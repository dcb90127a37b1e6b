package jetstream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// TestRewindIntoRemovedHistory: what was removed before the first event that comes again is in
// a gap, and a deletion among it comes as its copy.
func TestRewindIntoRemovedHistory(t *testing.T) {
	var now clock
	for name, test := range map[string]struct {
		history int64
		append  func(*testing.T, *jetstream.Journal, *object)
		want    []string
	}{
		"a change": {1, func(t *testing.T, j *jetstream.Journal, o *object) {
			t.Helper()
			mustAppend(t, j, o.event(&now, event.Modified))
			mustAppend(t, j, o.event(&now, event.Modified))
		}, []string{"gap", "3 modified"}},
		"a deletion": {4, func(t *testing.T, j *jetstream.Journal, o *object) {
			t.Helper()
			reuse(t, j, &now, o)
		}, []string{"gap", "3 deleted", "5 modified"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			j := h.open(history(test.history))
			c, slow := mustOpen(t, j, "bus", journal.FromNow), mustOpen(t, j, "slow", journal.FromNow)
			a := &object{name: "a"}
			mustAppend(t, j, a.event(&now, event.Added))
			read(t, slow, 1)
			since := later(t)
			test.append(t, j, a)
			end := j.Stats().LastSeq
			mustCommit(t, c, end)
			mustClose(t, c)
			mustClose(t, slow)
			mustClose(t, j)
			c = mustOpen(t, h.open(history(test.history)), "bus", journal.FromNow) // without the tail of before
			if _, err := rewind(t, c, since); err != nil {
				t.Fatal(err)
			}
			got := show(read(t, c, len(test.want)))
			for i, line := range strings.Split(strings.TrimSpace(got), "\n") {
				if !strings.Contains(line, test.want[i]) {
					t.Fatalf("entries:\n%swant: %q", got, test.want)
				}
			}
		})
	}
}

// later is a time after that of what was appended so far.
func later(t *testing.T) time.Time {
	t.Helper()
	began := time.Now()
	until(t, "time passes", func() bool { return time.Since(began) > 2*time.Millisecond })
	return time.Now()
}

// TestRewindInALogThatLostItsEnd: new events get the sequences of what the rewind was about. They
// are no part of it.
func TestRewindInALogThatLostItsEnd(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	old := h.copyDir()
	mustAppend(t, j, a.event(&now, event.Modified), a.event(&now, event.Modified))
	mustCommit(t, c, 3)
	if _, err := rewind(t, c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, c)
	mustClose(t, j)
	stateOf(t, h.dir, old)
	h.restartOn(old)
	j = h.open()
	c = mustOpen(t, j, "bus", journal.FromNow)
	x := &object{name: "x"}
	e := x.event(&now, event.Added)
	mustAppend(t, j, e)
	entries := read(t, c, 2)
	if got := entries[1]; got.Seq != 2 || got.Event.ID != e.ID || got.Event.Redelivered {
		t.Errorf("entries:\n%s", show(entries))
	}
}

// TestRewindKeepsWhatTheSinkHas: a deletion behind a jump was committed, and the rewind is to
// an event after it. Its copy does not come, also after a restart at once.
func TestRewindKeepsWhatTheSinkHas(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	trimAndDelete(t, j, &now, a, b)
	since := later(t)
	mustAppend(t, j, b.event(&now, event.Modified), (&object{name: "c"}).event(&now, event.Added)) // 9, 10
	mustClose(t, j)
	j = h.open(history(4), scanning)
	bus := mustOpen(t, j, "bus", journal.FromNow)
	mustOpen(t, j, "slow", journal.FromNow)
	if got := show(read(t, bus, 7)); !strings.Contains(got, "8 deleted a-7:deleted") {
		t.Fatalf("entries:\n%s", got)
	}
	mustCommit(t, bus, 9)
	if _, err := j.Restore(t.Context(), "core/configmaps", func(event.Event) {}); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, a.event(&now, event.Added)) // 12, behind the copy, 11
	if _, err := rewind(t, bus, since); err != nil {
		t.Fatal(err)
	}
	mustClose(t, bus)
	bus = mustOpen(t, j, "bus", journal.FromNow)
	if got := show(read(t, bus, 3)); !strings.Contains(got, "9 modified b-1:9:r") || !strings.Contains(got, fmt.Sprintf("12 added %s:11", a.uid)) {
		t.Errorf("after the restart:\n%s", got)
	}
}

// TestFullBesideASnapshotThatNeverEnds: a sink that has not got its first snapshot, whether it is
// open or was removed, does not keep the history from before it was added.
func TestFullBesideASnapshotThatNeverEnds(t *testing.T) {
	for name, open := range map[string]bool{"open": true, "removed": false} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			j := h.open(func(c *jetstream.Config) { c.MaxBytes, c.HistoryPerObject = 1<<20, 16 })
			c := mustOpen(t, j, "bus", journal.FromNow)
			var now clock
			greedy := &object{name: "greedy"}
			large := func(op event.Op) event.Event {
				e := greedy.event(&now, op)
				e.Data = noise(100 << 10)
				return e
			}
			mustAppend(t, j, bound(event.Begin, "core/configmaps", 3), large(event.Added), bound(event.Synced, "core/configmaps", 3))
			mustCommit(t, c, 3)
			typo := mustOpen(t, j, "typo", journal.FromSnapshot)
			if !open {
				mustClose(t, typo)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 14 { // 1.4 MB
				if err := j.Append(ctx, []event.Event{large(event.Modified)}); err != nil {
					t.Fatal(err)
				}
				mustCommit(t, c, j.Stats().LastSeq)
			}
		})
	}
}

// TestLagBehindForeignMessage: a message that is no event is nothing that a sink lacks.
func TestLagBehindForeignMessage(t *testing.T) {
	h := newHost(t)
	j := h.open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	mustAppend(t, j, (&object{name: "a"}).event(&now, event.Added))
	if _, err := h.shared().Publish(t.Context(), "k8s.test.core.configmaps.default.b", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	j.Look(t.Context())
	read(t, c, 1)
	mustCommit(t, c, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Read(ctx, 1)
	}()
	until(t, "no lag", func() bool { return c.Lag().Events == 0 })
	cancel()
	<-done
}

// TestReplacementOfAJournalWithAbsentSinks: a sink that is not open keeps its position when the
// records are lost.
func TestReplacementOfAJournalWithAbsentSinks(t *testing.T) {
	h := newHost(t)
	j := h.open()
	goes := mustOpen(t, j, "goes", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	mustCommit(t, goes, 1)
	mustClose(t, goes)
	mustAppend(t, j, a.event(&now, event.Modified), a.event(&now, event.Modified))
	h.remove("INFORMD_STATE")
	failed(t, j)
	mustClose(t, j)
	j = h.open(func(c *jetstream.Config) { c.Replaces = j })
	goes = mustOpen(t, j, "goes", journal.FromNow)
	if got := show(read(t, goes, 2)); got != describe("2 modified a-1:2", "3 modified a-1:3") {
		t.Errorf("entries:\n%s", got)
	}
}

// TestRewindIsNotFromBefore: a rewind delivers removed events that the tail holds, from the time
// that it names on, and nothing older.
func TestRewindIsNotFromBefore(t *testing.T) {
	j := newHost(t).open(history(1))
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a := &object{name: "a"}
	mustAppend(t, j, a.event(&now, event.Added))
	for range 20 {
		mustAppend(t, j, a.event(&now, event.Modified))
	}
	since := later(t)
	mustAppend(t, j, a.event(&now, event.Modified), a.event(&now, event.Modified))
	mustCommit(t, c, 23)
	if _, err := rewind(t, c, since); err != nil {
		t.Fatal(err)
	}
	if got := show(read(t, c, 2)); !strings.HasPrefix(got, "22 modified a-1:22:r") || !strings.Contains(got, "23 modified a-1:23:r") {
		t.Errorf("entries:\n%s", got)
	}
}

// TestLastBefore holds the search against streams with holes of all sizes.
func TestLastBefore(t *testing.T) {
	h := newHost(t)
	stream, err := h.shared().CreateStream(t.Context(), js.StreamConfig{Name: "HOLES", Subjects: []string{"holes"}})
	if err != nil {
		t.Fatal(err)
	}
	const all = 300
	for range all {
		if _, err := h.shared().Publish(t.Context(), "holes", nil); err != nil {
			t.Fatal(err)
		}
	}
	gone := map[uint64]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	for seq, size := uint64(1), uint64(1); seq < all; seq, size = seq+size+1+random.Uint64N(3), 1+random.Uint64N(60) {
		for at := seq; at < min(seq+size, all); at++ {
			gone[at] = true
			if err := stream.DeleteMsg(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := scan.NewStream(stream, h.connect(), server.New(), false, nil)
	var search scan.Preceding
	want := uint64(0)
	for seq := uint64(1); seq <= all; seq++ {
		if got, err := s.LastBefore(t.Context(), &search, seq); err != nil || got != want {
			t.Fatalf("before %d: %d, %v, want %d", seq, got, err, want)
		}
		if !gone[seq] {
			want = seq
		}
	}
}
