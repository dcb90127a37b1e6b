package journal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// again is a request for targets, which are of ConfigMaps.
func again(run uint64, targets ...string) journal.Resnapshot {
	r := journal.Resnapshot{Run: run}
	for _, target := range targets {
		begin, end := bound(event.Begin, target, run), bound(event.Synced, target, run)
		begin.Replay, end.Replay = true, true
		r.Begin, r.End = append(r.Begin, begin), append(r.End, end)
	}
	return r
}

// TestChangesWithinASnapshotAreDetached: a change stands for the state of its object there, so no filter of what has
// changed may keep it from the sink, which would take the object for a deleted one.
func TestChangesWithinASnapshotAreDetached(t *testing.T) {
	l := newLogTest(t)
	c := l.cursor("bus", journal.FromNow)
	l.add("added a")
	l.read(c)
	l.add("modified a")
	l.ok(c.Request(t.Context(), again(7, "core/configmaps")))
	entries := l.read(c)
	if diff := cmp.Diff([]string{"- begin run 7", "modified a2", "- synced run 7"}, show(entries)); diff != "" {
		t.Fatal(diff)
	}
	if !entries[1].Detached {
		t.Error("the change may be filtered out")
	}
	l.add("modified a")
	if entries = l.read(c); len(entries) != 1 || entries[0].Detached {
		t.Errorf("after the snapshot: %+v", entries)
	}
}

// TestStatesHaveNoChanges: the last event of an object may say what it changed, which its state does not. A condition
// on the object before would keep the state from the sink.
func TestStatesHaveNoChanges(t *testing.T) {
	l := newLogTest(t)
	c := l.cursor("bus", journal.FromNow)
	l.add("added a")
	changed := l.event("modified a")
	changed.Data = []byte(`{"oldObject":{"n":1},"changed":["n"],"object":{"n":2}}`)
	l.append(changed)
	l.read(c)
	l.ok(c.Request(t.Context(), again(7, "core/configmaps")))
	for _, entries := range [][]journal.Entry{l.read(c), l.read(l.cursor("new", journal.FromSnapshot))} {
		var got []string
		for i := range entries {
			if e := &entries[i].Event; e.Op == event.Snapshot {
				got = append(got, string(e.Data))
			}
		}
		if diff := cmp.Diff([]string{`{"object":{"n":2}}`}, got); diff != "" {
			t.Errorf("%v: %s", show(entries), diff)
		}
	}
}

// TestResnapshot: one sink gets the states of what it has passed, and the rest as it happened, before
// the end; the others and the log get nothing.
func TestResnapshot(t *testing.T) {
	const begin, end = "- begin run 7", "- synced run 7"
	for name, test := range map[string]struct {
		read int      // how much of a, b, d, modified a and deleted b was read
		amid []string // appended after the beginning was read
		want []string
	}{
		"quiet":  {5, nil, []string{begin, "- snapshot d3 run 7", "- snapshot a4 run 7", end}},
		"behind": {2, nil, []string{begin, "added d3", "modified a4", "deleted b5", end}},
		"resync": {
			5,
			[]string{"again a"},
			[]string{begin, "- snapshot d3 run 7", "snapshot a4 run 5000", "- snapshot a4 run 7", end},
		},
		"a change after it": {
			5,
			[]string{"again a", "modified a"},
			[]string{begin, "- snapshot d3 run 7", "snapshot a4 run 5000", "- snapshot a4 run 7", "modified a6", end},
		},
		"a deletion": {5, []string{"deleted a"}, []string{begin, "- snapshot d3 run 7", "deleted a6", end}},
		"a deletion and a change": {
			5,
			[]string{"deleted a", "added a", "modified d"},
			[]string{begin, "deleted a6", "added a7", "modified d8", end},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLogTest(t, watched(func(e *event.Event) bool { return e.Namespace != "gone" }))
			c, quiet := l.cursor("bus", journal.FromNow), l.cursor("quiet", journal.FromNow)
			l.add("added a", "added b", "added d", "modified a", "deleted b")
			l.read(c, test.read)
			unwatched, secret := l.event("added x"), l.event("added s")
			unwatched.Namespace, secret.Resource = "gone", "secrets"
			if l.rv -= 2; test.read == 5 && test.amid == nil {
				l.append(unwatched, secret)
				l.read(c)
			}
			l.ok(c.Request(t.Context(), again(7, "core/configmaps")))
			got := l.read(c, 1)
			l.add(test.amid...)
			got = append(got, l.read(c)...)
			lines := show(got)
			lines = slices.DeleteFunc(lines, func(s string) bool { return strings.HasSuffix(s, "a5 run 5000") })
			if diff := cmp.Diff(test.want, lines); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			for _, line := range show(l.read(quiet)) {
				if strings.HasSuffix(line, "run 7") {
					t.Errorf("another sink got %s", line)
				}
			}
		})
	}
	t.Run("namespaces", func(t *testing.T) {
		l := newLogTest(t)
		c := l.cursor("bus", journal.FromNow)
		for _, namespace := range []string{"x", "y", "z"} {
			e := l.event("added a")
			e.Namespace = namespace
			l.append(e)
		}
		l.read(c)
		l.ok(c.Request(t.Context(), again(7, "core/configmaps@x", "core/configmaps@z")))
		got := l.read(c)
		if len(got) != 6 || got[2].Event.Target != "core/configmaps@x" || got[3].Event.Target != "core/configmaps@z" {
			t.Errorf("entries: %q", show(got))
		}
	})
}

// TestLossDuringASnapshot: an object changes during a snapshot, and that is removed before the sink reads
// it. The end of the snapshot comes behind a later event of the object.
func TestLossDuringASnapshot(t *testing.T) {
	for name, first := range map[string]bool{"of a new sink": true, "for one sink": false} {
		t.Run(name, func(t *testing.T) {
			l := newLogTest(t)
			c := l.cursor("bus", journal.FromNow)
			l.add("begin 3", "added a", "added b", "synced 3")
			l.read(c)
			l.commit(c)
			if l.ok(c.Request(t.Context(), again(7, "core/configmaps"))); first {
				l.ok(c.Close())
				c = l.cursor("new", journal.FromSnapshot)
			}
			l.read(c, 1)
			fill := func(name string) {
				for i := range 10 {
					l.add(fmt.Sprint("added ", name, i))
				}
			}
			fill("f")
			l.add("modified b")
			l.read(c, 5) // all states, so that the end is to come behind that event
			fill("g")
			l.add("modified b", "modified b", "modified a")
			fill("h")
			journal.Alone(l.Journal)
			waitFor(t, "an event is removed", func() bool {
				journal.SetLimit(l.Journal, journal.LogStats(l.Journal).Bytes/2)
				l.ok(journal.Compact(t.Context(), l.Journal, true))
				return l.Stats().Dropped["default"] >= 2
			})
			lines := show(l.read(c))
			end := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "synced") })
			came := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "modified b") })
			lost := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "gap") })
			if lost < 0 || came < 0 || end < came {
				t.Errorf("entries: %q", lines)
			}
		})
	}
}

// TestResnapshotBeginsAgain after what moves the cursor. After a rewind it begins when the sink has all
// again that it had.
func TestResnapshotBeginsAgain(t *testing.T) {
	l := newLogTest(t)
	c := l.cursor("bus", journal.FromNow)
	l.add("added a", "added b")
	l.read(c)
	l.commit(c)
	l.ok(c.Request(t.Context(), again(7, "core/configmaps")))
	l.read(c, 1)
	l.complete(c, 7, false)
	l.ok(c.Reset(t.Context()))
	all := []string{"- begin run 7", "- snapshot a1 run 7", "- snapshot b2 run 7", "- synced run 7"}
	l.want(c, all...)
	_, err := c.Rewind(t.Context(), time.Unix(0, 0))
	l.ok(err)
	l.complete(c, 7, false)
	l.want(c, append([]string{"added a1 again", "added b2 again"}, all...)...)
	l.complete(c, 7, true)
	l.want(c)
}

// TestRequests: they wait for the first snapshot and for each other, and outlive the process, but for those of targets
// that are not watched.
func TestRequests(t *testing.T) {
	l := newLogTest(t, watched(func(e *event.Event) bool { return e.Target != "core/configmaps@a" && e.Target != "core/secrets" }))
	l.add("added a")
	c := l.cursor("bus", journal.FromSnapshot)
	both, secrets := again(7, "core/configmaps@a", "core/configmaps"), again(8, "core/secrets")
	for _, r := range []journal.Resnapshot{both, secrets, again(9, "core/configmaps")} {
		l.ok(c.Request(t.Context(), r))
	}
	l.want(c, "snapshot a1")
	l.complete(c, 7, false)
	l.restart(false)
	c = l.cursor("bus", journal.FromSnapshot)
	runs := func() (runs []uint64) {
		for _, r := range c.Requests() {
			runs = append(runs, r.Run)
			if len(r.Begin) != 1 || len(r.End) != 1 {
				t.Errorf("run %d: %d targets begin, %d end", r.Run, len(r.Begin), len(r.End))
			}
		}
		return runs
	}
	for _, want := range [][]uint64{{7, 9}, {9}} {
		if diff := cmp.Diff(want, runs()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		l.read(c)
		l.commit(c)
		l.read(c)
		l.complete(c, 9, want[0] == 9)
		l.complete(c, 7, want[0] == 7)
	}
	l.restart(false)
	if c = l.cursor("bus", journal.FromSnapshot); len(c.Requests()) > 0 {
		t.Errorf("requests %v after all are complete", runs())
	}
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = c.Request(t.Context(), again(uint64(n+1), "core/configmaps"))
	}
	if err == nil || len(c.Requests()) != journal.MaxRequests {
		t.Errorf("%d requests, %v", len(c.Requests()), err)
	}
}

// complete completes the re-snapshot of a run, if it was read.
func (l *logTest) complete(c *journal.Cursor, run uint64, want bool) {
	l.t.Helper()
	if complete, err := c.Complete(run); err != nil || complete != want {
		l.t.Errorf("complete run %d: %t, %v; want %t", run, complete, err, want)
	}
}
