package journal_test

import (
	"errors"
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
			l.ok(c.Resnapshot(t.Context(), again(7, "core/configmaps")))
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
		l.ok(c.Resnapshot(t.Context(), again(7, "core/configmaps@x", "core/configmaps@z")))
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
			if l.ok(c.Resnapshot(t.Context(), again(7, "core/configmaps"))); first {
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
				l.ok(l.Compact(t.Context(), true))
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

// TestResnapshotIsDropped by what moves the cursor. After a rewind it begins when the sink has all
// again that it had.
func TestResnapshotIsDropped(t *testing.T) {
	l := newLogTest(t)
	c := l.cursor("bus", journal.FromNow)
	l.add("added a", "added b")
	l.read(c)
	l.commit(c)
	l.ok(c.Resnapshot(t.Context(), again(7, "core/configmaps")))
	l.read(c, 1)
	l.ok(c.Reset(t.Context()))
	l.want(c)
	l.ok(c.Resnapshot(t.Context(), again(8, "core/configmaps")))
	_, err := c.Rewind(t.Context(), time.Unix(0, 0))
	l.ok(err)
	l.ok(c.Resnapshot(t.Context(), again(9, "core/configmaps")))
	l.want(c, "added a1 again", "added b2 again", "- begin run 9", "- snapshot a1 run 9", "- snapshot b2 run 9", "- synced run 9")
	if err := l.cursor("new", journal.FromSnapshot).Resnapshot(t.Context(), again(9, "core/configmaps")); !errors.Is(err, journal.ErrFirstSnapshot) {
		t.Errorf("a sink at its first snapshot: %v", err)
	}
}

// TestKeptResnapshots: requests outlive the process, but for those of targets that are not watched.
func TestKeptResnapshots(t *testing.T) {
	l := newLogTest(t, watched(func(e *event.Event) bool { return e.Target == "core/configmaps@b" }))
	both, secrets := again(7, "core/configmaps@a", "core/configmaps@b"), again(8, "core/secrets")
	l.ok(l.cursor("bus", journal.FromNow).KeepResnapshots(t.Context(), []journal.Resnapshot{both, secrets}))
	l.restart(false)
	c := l.cursor("bus", journal.FromNow)
	for i, want := range [][]journal.Resnapshot{{{Run: 7, Begin: both.Begin[1:], End: both.End[1:]}}, nil} {
		kept, err := c.KeptResnapshots()
		l.ok(err)
		if diff := cmp.Diff(want, kept, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Time" }, cmp.Ignore())); diff != "" {
			t.Errorf("kept %d (-want +got):\n%s", i, diff)
		}
		l.ok(c.KeepResnapshots(t.Context(), nil))
	}
}
