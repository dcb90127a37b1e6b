package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// TestSinkThatWasAway: a sink that was not open gets every deletion, before the object that has the
// name next, what is kept of the rest, and the number of what is not.
func TestSinkThatWasAway(t *testing.T) {
	for name, test := range map[string]struct{ closed, short bool }{
		"closed": {true, false}, "killed": {false, false}, "short of space": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLogTest(t, history(2))
			stays, goes := l.cursor("stays", journal.FromNow), l.cursor("goes", journal.FromNow)
			l.add("added a", "added b")
			l.commit(goes)
			if test.closed {
				l.ok(goes.Close())
			} else {
				l.ok(journal.Save(l.Journal))
				l.restart(false)
				stays = l.cursor("stays", journal.FromNow)
			}
			l.add("modified a", "deleted a", "added a", "modified a", "modified a", "modified a", "modified b", "deleted b")
			l.commit(stays)
			l.restart(true)
			stays = l.cursor("stays", journal.FromNow)
			l.clear(test.short)
			goes = l.cursor("goes", journal.FromNow)
			want := []string{"- gap 1", "deleted a4", "- gap 2", "modified a7", "modified a8", "- gap 1", "deleted b10"}
			if test.short {
				want = []string{"- gap 1", "deleted a4", "- gap 3", "modified a8", "- gap 1", "deleted b10"}
			}
			l.want(goes, want...)
			l.commit(goes)
			l.add("deleted a")
			l.want(goes, "deleted a11")
			l.want(stays, "deleted a11")
		})
	}
}

// TestSinkThatStaysAway: nothing is kept for a sink after deletedRetention, and it is told how much.
// Sequences go on although the newest events are gone.
func TestSinkThatStaysAway(t *testing.T) {
	l := newLogTest(t, history(1), func(c *journal.Config) { c.DeletedRetention = time.Nanosecond })
	stays, goes := l.cursor("stays", journal.FromNow), l.cursor("goes", journal.FromNow)
	l.add("added a", "deleted a")
	l.commit(stays)
	l.ok(goes.Close())
	for range 2 {
		l.restart(true)
		stays = l.cursor("stays", journal.FromNow)
		l.clear(false)
	}
	if n := l.Stats().Events; n != 0 {
		t.Errorf("%d events are left", n)
	}
	l.add("added a")
	l.want(l.cursor("goes", journal.FromNow), "- gap 2", "added a3")
	l.want(stays, "added a3")
}

// TestWithoutSinks: of a journal without readers, as that of a program which needs no more than the last events,
// history goes all the same. A sink that was there long ago changes nothing.
func TestWithoutSinks(t *testing.T) {
	l := newLogTest(t, history(2), func(c *journal.Config) { c.DeletedRetention = time.Nanosecond })
	l.ok(l.cursor("of before", journal.FromNow).Close())
	l.add("added a", "modified a", "modified a", "modified a", "added b")
	l.restart(true)
	l.ok(journal.Clear(t.Context(), l.Journal, false)) // the first sink may be about to come
	if n := l.Stats().Events; n != 5 {
		t.Errorf("%d events are left at the start", n)
	}
	l.clear(false)
	if n := l.Stats().Events; n != 3 {
		t.Errorf("%d events are left", n)
	}
	l.want(l.cursor("new", journal.FromSnapshot), "- snapshot a4", "snapshot b5")
}

// TestPositions: what was committed does not come again after the end of the process, and the note
// stays; a commit beyond the end is refused.
func TestPositions(t *testing.T) {
	for name, clean := range map[string]bool{"stopped": true, "killed": false} {
		t.Run(name, func(t *testing.T) {
			l := newLogTest(t)
			c := l.cursor("bus", journal.FromNow)
			l.add("added a", "modified a", "modified a")
			all := l.read(c)
			c.SetNote("note")
			l.commit(c, all[1])
			if err := c.Commit(all[2].Seq + 1); err == nil {
				t.Error("a commit beyond the end was accepted")
			}
			l.ok(journal.Save(l.Journal))
			l.restart(clean)
			c = l.cursor("bus", journal.FromSnapshot)
			if lag := c.Lag(); lag.Events != 1 || c.Note() != "note" {
				t.Errorf("lag %+v, note %q", lag, c.Note())
			}
			l.want(c, "modified a3")
			l.commit(c)
			if lag := c.Lag(); lag != (journal.Lag{}) {
				t.Errorf("lag %+v", lag)
			}
		})
	}
}

// TestDetached: what is in the log when events turn out to be gone is detached, also after a restart
// in its middle; what is appended later is not.
func TestDetached(t *testing.T) {
	l := newLogTest(t, history(2))
	l.ok(l.cursor("bus", journal.FromNow).Close())
	fast := l.cursor("fast", journal.FromNow)
	l.add("added a", "modified a", "modified a", "modified a")
	l.commit(fast)
	l.restart(true)
	l.cursor("fast", journal.FromNow)
	l.clear(false)
	c := l.cursor("bus", journal.FromNow)
	first := l.read(c, 2)[1:]
	l.commit(c, first[0])
	l.restart(true)
	c = l.cursor("bus", journal.FromNow)
	l.add("modified a")
	var got []string
	for _, e := range append(first, l.read(c)...) {
		got = append(got, fmt.Sprint(e.Event.ResourceVersion, e.Detached))
	}
	if want := []string{"3 true", "4 true", "5 false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFirstSnapshot: a new sink gets each object between the bounds, with a run of its own each time,
// and completes that by the sequence of its last entry.
func TestFirstSnapshot(t *testing.T) {
	const begin, end = "- begin", "synced"
	whole := []string{"begin 3", "added a", "added b", "added d", "synced 3"}
	for name, test := range map[string]struct {
		before, amid []string // appended before and after the cursor is opened
		want         []string
	}{
		"quiet": {
			append(whole, "modified a", "deleted b"), nil,
			[]string{begin, "- snapshot d3", "- snapshot a4", end},
		},
		"changes": {
			whole,
			[]string{"modified d", "deleted b", "added e"},
			[]string{begin, "- snapshot a1", "- modified d4", "- deleted b5", "- added e6", end},
		},
		"resync": {
			whole,
			[]string{"again d"},
			[]string{begin, "- snapshot a1", "- snapshot d3 run 5000", "- snapshot d3", "- snapshot b2", end},
		},
		"no bounds": {[]string{"added a", "added b"}, nil, []string{"- snapshot a1", "snapshot b2"}},
		"changes, no bounds": {
			[]string{"added a", "added b"},
			[]string{"modified b"},
			[]string{"- snapshot a1", "snapshot b2", "modified b3"},
		},
		"nothing exists": {[]string{"added a", "deleted a"}, nil, nil},
		"first list": {
			[]string{"begin 3", "added a"},
			[]string{"added b", "synced 3"},
			[]string{"- begin run 3", "snapshot a1 run 3", "added b2", "synced run 3"},
		},
		"first list, its end before a change": { // of an object whose state was not announced
			[]string{"begin 3", "added a", "added b"},
			[]string{"synced 3", "modified b"},
			[]string{"- begin run 3", "- snapshot a1 run 3", "- modified b3", "synced run 3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLogTest(t)
			l.add(test.before...)
			c := l.cursor("bus", journal.FromSnapshot)
			begun := l.read(c, 1)
			l.add(test.amid...)
			run := uint64(0)
			for range 2 {
				entries := append(begun, l.read(c)...)
				begun = nil
				if diff := cmp.Diff(test.want, show(entries)); diff != "" {
					t.Fatalf("entries (-want +got):\n%s", diff)
				}
				if len(entries) == 0 {
					break
				}
				if entries[0].Event.Op == event.Begin && entries[0].Event.Run <= run && entries[0].Event.Run > 1e12 {
					t.Errorf("run %d after %d", entries[0].Event.Run, run)
				}
				run = entries[0].Event.Run
				if err := c.Rewindable(); !errors.Is(err, journal.ErrFirstSnapshot) {
					t.Errorf("Rewindable = %v", err)
				}
				l.ok(c.Reset(t.Context()))
				if test.amid != nil {
					break
				}
			}
			l.read(c)
			l.commit(c)
			l.ok(c.Rewindable())
			l.add("added z")
			l.want(c, fmt.Sprint("added z", l.rv))
			if lag := c.Lag().Events; lag != 1 {
				t.Errorf("%d events behind", lag)
			}
		})
	}
}

// TestFirstSnapshotBegins: a sink that was down when it was new gets the states of when it begins. Its filters may
// keep changes since then from it.
func TestFirstSnapshotBegins(t *testing.T) {
	l := newLogTest(t)
	l.add("begin 3", "added a", "added b", "synced 3")
	c := l.cursor("bus", journal.FromSnapshot)
	l.add("modified a", "added c", "modified c")
	l.want(c, "- begin", "- snapshot b2", "- snapshot a3", "- snapshot c5", "synced")
}

// TestFirstSnapshotBreaksOff: the next attempt begins with the deletions since the sink was new.
func TestFirstSnapshotBreaksOff(t *testing.T) {
	l := newLogTest(t, history(1))
	l.add("added a", "added b", "added d")
	c := l.cursor("bus", journal.FromSnapshot)
	l.commit(c, l.read(c, 2)[1]) // too early
	l.add("deleted a", "deleted b", "added b", "modified b", "modified d")
	fast := l.cursor("fast", journal.FromNow)
	l.ok(c.Close())
	l.commit(fast)
	l.restart(true)
	l.cursor("fast", journal.FromNow)
	l.clear(false)
	c = l.cursor("bus", journal.FromNow)
	got := append(show(l.read(c)), show(l.read(c))...) // the states may come behind a sync of the gap
	if diff := cmp.Diff([]string{"- deleted a4", "- deleted b5", "- gap 1", "- snapshot b7", "snapshot d8"}, got); diff != "" {
		t.Error(diff)
	}
	l.commit(c)
	l.ok(journal.Save(l.Journal))
	l.restart(false)
	l.want(l.cursor("bus", journal.FromNow))
}

// TestSnapshotOfAVoidTarget: the log has lost events of the target, so the snapshot of a new sink has
// no end before the target has taken its first list again.
func TestSnapshotOfAVoidTarget(t *testing.T) {
	l := newLogTest(t, func(c *journal.Config) { c.Sync = journal.SyncNever })
	l.add("begin 3", "added a", "synced 3")
	l.ok(l.Mark(t.Context(), "core/configmaps", []byte("here")))
	l.ok(journal.SyncAll(t.Context(), l.Journal))
	l.restart(false)
	if l.void() {
		t.Error("the checkpoint is void after the end of the process alone")
	}
	journal.Kill(l.Journal)
	var err error
	l.Journal, err = journal.OpenOn(l.disk, l.config, "another boot", 512)
	l.ok(err)
	if !l.void() {
		t.Error("the checkpoint counts although nothing was synced")
	}
	c := l.cursor("bus", journal.FromSnapshot)
	if got := show(l.read(c)); len(got) != 2 || got[0] != "- begin" || got[1] != "snapshot a1" {
		t.Errorf("entries: %q", got)
	}
	l.add("begin 4", "again a", "synced 4")
	if got := show(l.read(c)); len(got) == 0 || got[len(got)-1] != "synced run 4" {
		t.Errorf("entries: %q", got)
	}
}

// TestRewind: what was appended since a time comes again, with a new run, without bounds, and without
// what is from before.
func TestRewind(t *testing.T) {
	for name, restart := range map[string]bool{"from memory": false, "from files": true} {
		t.Run(name, func(t *testing.T) {
			l := newLogTest(t)
			c := l.cursor("bus", journal.FromNow)
			l.add("begin 3", "added a")
			began := time.Now()
			for time.Since(began) < 2*time.Millisecond { //nolint:revive // until the clock has moved
			}
			since := time.Now()
			l.add("modified a", "synced 3", "modified a", "synced 4")
			l.read(c)
			l.commit(c)
			rewind := func(since time.Time, want uint64) {
				t.Helper()
				if n, err := c.Rewind(t.Context(), since); n != want || err != nil {
					t.Errorf("Rewind = %d, %v; want %d", n, err, want)
				}
				if restart {
					l.ok(journal.Save(l.Journal))
					l.restart(false)
					c = l.cursor("bus", journal.FromNow)
				}
			}
			rewind(since, 4)
			entries := l.read(c)
			if diff := cmp.Diff([]string{"modified a2 again", "modified a3 again"}, show(entries)); diff != "" {
				t.Fatalf("entries (-want +got):\n%s", diff)
			}
			l.commit(c, entries[1])
			if lag := c.Lag().Events; lag != 0 {
				t.Errorf("%d events behind", lag)
			}
			rewind(time.Now().Add(time.Hour), 0)
			l.want(c)
			l.add("modified a")
			rewind(time.Unix(0, 0), 6)
			l.want(c, "added a1 again", "modified a2 again", "modified a3 again", "modified a4")
		})
	}
}

// TestRewindIntoRemovedHistory: a gap counts what is gone.
func TestRewindIntoRemovedHistory(t *testing.T) {
	l := newLogTest(t, history(1))
	c := l.cursor("bus", journal.FromNow)
	l.add("added a", "modified a", "modified a")
	l.commit(c)
	l.restart(true)
	c = l.cursor("bus", journal.FromNow)
	l.clear(false)
	_, err := c.Rewind(t.Context(), time.Unix(0, 0))
	l.ok(err)
	l.want(c, "- gap 2", "modified a3 again")
}

// TestLast: the last event of each object has its data, after history was removed and a restart too.
func TestLast(t *testing.T) {
	l := newLogTest(t, history(1))
	c := l.cursor("bus", journal.FromNow)
	l.add("added a", "modified a", "added b", "deleted b", "modified a")
	l.commit(c)
	l.restart(true)
	l.cursor("bus", journal.FromNow)
	l.clear(false)
	l.restart(false)
	for _, name := range []string{"a", "b"} {
		want := l.last[name]
		got, ok, err := l.Last(t.Context(), &event.Event{Resource: "configmaps", Namespace: "default", Name: name})
		l.ok(err)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	other := event.Event{Resource: "configmaps", Namespace: "default", Name: "other"}
	if _, ok, err := l.Last(t.Context(), &other); ok || err != nil {
		t.Errorf("an unknown object: %t, %v", ok, err)
	}
}

// TestDeadLettersKeepTheirNumbers: no letter gets the number of another one, also if that was dropped and compacted, as
// somebody may be about to drop the letters of a list.
func TestDeadLettersKeepTheirNumbers(t *testing.T) {
	l := newLogTest(t)
	for n := range uint64(6) {
		l.commit(l.cursor("bus", journal.FromNow))
		for _, sink := range []string{"bus", "table"} {
			l.ok(l.DeadLetters(sink).Put(t.Context(), []byte("{}")))
			l.ok(l.DeadLetters(sink).Each(t.Context(), func(got uint64, _ []byte) error {
				if got != n+1 {
					t.Errorf("%s has the letter %d, want %d", sink, got, n+1)
				}
				return l.DeadLetters(sink).Drop(t.Context(), got)
			}))
		}
		l.add(slices.Repeat([]string{"modified a"}, 40)...)
		l.restart(n%2 == 0)
		l.commit(l.cursor("bus", journal.FromNow))
		l.clear(true)
		l.restart(n%2 == 1)
	}
}

// TestSaveOfAFirstPosition: a position is written when it has changed, that of a sink without events
// once.
func TestSaveOfAFirstPosition(t *testing.T) {
	l := newLogTest(t)
	l.cursor("sink", journal.FromNow)
	before := journal.LogStats(l.Journal).Appended
	for range 3 {
		l.ok(journal.Save(l.Journal))
	}
	if after := journal.LogStats(l.Journal).Appended; after != before {
		t.Errorf("%d bytes were written of a position that is the same", after-before)
	}
}

// TestAcknowledged: what a destination has acknowledged stays through restarts, and while the cursor goes back. The log
// keeps its identity, which no other has.
func TestAcknowledged(t *testing.T) {
	l := newLogTest(t)
	c := l.cursor("sink", journal.FromNow)
	l.add("added a", "modified a")
	l.commit(c)
	c.Acknowledge(2)
	c.Acknowledge(1)
	if _, err := c.Rewind(t.Context(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	id := c.Log()
	l.restart(true)
	c = l.cursor("sink", journal.FromNow)
	if got := c.Acknowledged(); got != 2 {
		t.Errorf("acknowledged %d, want 2", got)
	}
	if c.Log() != id || id == "" {
		t.Errorf("the log is %q after a restart, and was %q", c.Log(), id)
	}
	if other := newLogTest(t).cursor("sink", journal.FromNow).Log(); other == id {
		t.Errorf("two logs are %q", id)
	}
}
