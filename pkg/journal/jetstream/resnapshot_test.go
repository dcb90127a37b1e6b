package jetstream_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/jetstream"
)

// again is a request for the targets, which are of ConfigMaps.
func again(run uint64, targets ...string) journal.Resnapshot {
	r := journal.Resnapshot{Run: run}
	for _, target := range targets {
		begin := event.Event{Cluster: "test", Target: target, Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Replay: true}
		end := begin
		begin.SetBound(event.Begin, run, 9)
		end.SetBound(event.Synced, run, 9)
		r.Begin, r.End = append(r.Begin, begin), append(r.End, end)
	}
	return r
}

func resnapshot(t *testing.T, c journal.Cursor, r journal.Resnapshot) error {
	t.Helper()
	repeats, ok := c.(journal.Resnapshotter)
	if !ok {
		t.Fatal("the cursor cannot repeat states")
	}
	return repeats.Resnapshot(t.Context(), r)
}

func mustResnapshot(t *testing.T, c journal.Cursor, r journal.Resnapshot) {
	t.Helper()
	if err := resnapshot(t, c, r); err != nil {
		t.Fatalf("Resnapshot: %v", err)
	}
}

const begins, ends = "0 begin core/configmaps:9:begin:r7", "0 synced core/configmaps:9:synced:r7"

// TestResnapshot: one sink gets the states, the others and the log nothing; what is
// deleted, of another resource or not watched any more is left out.
func TestResnapshot(t *testing.T) {
	h := newHost(t)
	j := h.open(func(c *jetstream.Config) {
		c.Watched = func(e *event.Event) bool { return e.Namespace != "gone" }
	})
	var now clock
	a, b, d, other, outside := &object{name: "a"}, &object{name: "b"}, &object{name: "d"}, &object{name: "other"}, &object{name: "outside"}
	secret, unwatched := other.event(&now, event.Added), outside.event(&now, event.Added)
	secret.Resource, secret.Target = "secrets", "core/secrets"
	unwatched.Namespace = "gone"
	c, quiet := mustOpen(t, j, "bus", journal.FromNow), mustOpen(t, j, "quiet", journal.FromNow)
	mustAppend(t, j, secret, unwatched, a.event(&now, event.Added), b.event(&now, event.Added), d.event(&now, event.Added))
	mustAppend(t, j, a.event(&now, event.Modified), b.event(&now, event.Deleted))
	read(t, c, 7)
	mustCommit(t, c, 7)
	mustResnapshot(t, c, again(7, "core/configmaps"))
	got := read(t, c, 4)
	want := describe(begins, "0 snapshot d-5:5:r7", "0 snapshot a-3:6:r7", ends)
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if e := got[2].Event; !e.Replay || !e.Reannounced() || e.Ordinal != 2 || string(e.Data) != `{"object":{"rv":6}}` {
		t.Errorf("the object comes as %+v", e)
	}
	silent(t, c)
	read(t, quiet, 7)
	silent(t, quiet)
	if last := j.Stats().LastSeq; last != 7 {
		t.Errorf("the log ends at %d, want 7", last)
	}
	mustAppend(t, j, a.event(&now, event.Modified))
	if got := show(read(t, c, 1)); got != describe("8 modified a-3:8") {
		t.Errorf("then came %s", got)
	}
}

// TestResnapshotOfNamespaces has a target for each of two namespaces, and objects in a
// third.
func TestResnapshotOfNamespaces(t *testing.T) {
	j := newHost(t).open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	for _, namespace := range []string{"x", "y", "z"} {
		e := (&object{name: "a"}).event(&now, event.Added)
		e.Namespace = namespace
		mustAppend(t, j, e)
	}
	read(t, c, 3)
	mustResnapshot(t, c, again(7, "core/configmaps@x", "core/configmaps@z"))
	got := read(t, c, 6)
	if got[2].Event.Target != "core/configmaps@x" || got[3].Event.Target != "core/configmaps@z" || got[5].Event.ID != "core/configmaps@z:9:synced:r7" {
		t.Errorf("entries:\n%s", show(got))
	}
}

// TestResnapshotBehind: a sink that has to read on gets what it has passed anew, and
// the rest as it happened, before the end.
func TestResnapshotBehind(t *testing.T) {
	j := newHost(t).open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added), a.event(&now, event.Modified))
	read(t, c, 2)
	mustResnapshot(t, c, again(7, "core/configmaps"))
	want := describe(begins, "0 snapshot b-2:2:r7", "3 modified a-1:3", ends)
	if diff := cmp.Diff(want, show(read(t, c, 4))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// announcedAgain is the next event of an object, as `resync` makes it.
func (o *object) announcedAgain(run uint64) event.Event {
	e := o.event(&clock{o.prev - 1}, event.Snapshot)
	e.Replay = true
	e.SetRun(run)
	return e
}

// TestResnapshotAmidResync: an object that `resync` announces while a sink gets the states
// has an event of the snapshot, too. For a consumer the one of `resync` does not count, as
// it looks like one that a rewind delivers again.
func TestResnapshotAmidResync(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a *object, now *clock) []event.Event
		want   []string
	}{
		"resync": {
			func(a *object, _ *clock) []event.Event { return []event.Event{a.announcedAgain(5000)} },
			[]string{"3 snapshot a-1:1:r5000", "0 snapshot a-1:1:r7"},
		},
		"a change after it": {
			func(a *object, now *clock) []event.Event {
				return []event.Event{a.announcedAgain(5000), a.event(now, event.Modified)}
			},
			[]string{"3 snapshot a-1:1:r5000", "4 modified a-1:3"},
		},
		"a deletion after it": {
			func(a *object, now *clock) []event.Event {
				return []event.Event{a.announcedAgain(5000), a.event(now, event.Deleted)}
			},
			[]string{"3 snapshot a-1:1:r5000", "4 deleted a-1:deleted"},
		},
		"of another resource": {
			func(_ *object, now *clock) []event.Event {
				o := &object{name: "s"}
				first := o.event(now, event.Added)
				again := o.announcedAgain(5000)
				first.Resource, again.Resource = "secrets", "secrets"
				return []event.Event{first, again}
			},
			[]string{"0 snapshot a-1:1:r7", "3 added s-3:3", "4 snapshot s-3:3:r5000"}, // the state of a is the first
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newHost(t).open()
			sink := mustOpen(t, j, "bus", journal.FromNow)
			var now clock
			a, b := &object{name: "a"}, &object{name: "b"}
			mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added))
			read(t, sink, 2)
			mustCommit(t, sink, 2)
			mustResnapshot(t, sink, again(7, "core/configmaps"))
			got := show(read(t, sink, 1)) // the beginning: the states are those up to here
			mustAppend(t, j, c.change(a, &now)...)
			got += show(read(t, sink, len(c.want)+2))
			lines := strings.Split(strings.TrimSpace(got), "\n")
			const other = "0 snapshot b-2:2:r7" // comes in turn with the log
			ofLog := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == other })
			want := append(append([]string{begins}, c.want...), ends)
			if diff := cmp.Diff(want, ofLog); diff != "" || len(lines) != len(want)+1 {
				t.Errorf("entries:\n%s\nwithout %s (-want +got):\n%s", got, other, diff)
			}
			silent(t, sink)
		})
	}
}

// TestResnapshotAfterRewind: the snapshot begins when the sink has all again that it had
// before. An event that is delivered again does not show that the object exists now.
func TestResnapshotAfterRewind(t *testing.T) {
	j := newHost(t).open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	a, b := &object{name: "a"}, &object{name: "b"}
	mustAppend(t, j, a.event(&now, event.Added), b.event(&now, event.Added))
	read(t, c, 2)
	mustCommit(t, c, 2)
	if _, err := rewind(t, c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	mustResnapshot(t, c, again(7, "core/configmaps"))
	want := describe("1 added a-1:1:r", "2 added b-2:2:r", begins, "0 snapshot a-1:1:r7", "0 snapshot b-2:2:r7", ends)
	if diff := cmp.Diff(want, show(read(t, c, 6))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestResnapshotIsDropped by what moves the cursor, and not possible in the first
// snapshot.
func TestResnapshotIsDropped(t *testing.T) {
	j := newHost(t).open()
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	mustAppend(t, j, (&object{name: "a"}).event(&now, event.Added))
	read(t, c, 1)
	mustCommit(t, c, 1)
	mustResnapshot(t, c, again(7, "core/configmaps"))
	read(t, c, 1)
	if err := c.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	silent(t, c)
	mustResnapshot(t, c, again(8, "core/configmaps"))
	if _, err := rewind(t, c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if got := show(read(t, c, 1)); got != describe("1 added a-1:1:r") {
		t.Errorf("after a rewind came %s", got)
	}
	silent(t, c)
	if err := resnapshot(t, mustOpen(t, j, "new", journal.FromSnapshot), again(9, "core/configmaps")); !errors.Is(err, journal.ErrFirstSnapshot) {
		t.Errorf("a sink at its first snapshot: %v, want ErrFirstSnapshot", err)
	}
}

// TestResnapshotAmidChanges: while objects come, change and go, the server is
// restarted, and history is trimmed, no state follows a newer one, and at the end every
// object was told of since the beginning.
func TestResnapshotAmidChanges(t *testing.T) {
	h := newHost(t)
	j := h.open(history(4))
	c := mustOpen(t, j, "bus", journal.FromNow)
	var now clock
	objects := make([]*object, 300)
	for i := range objects {
		objects[i] = &object{name: fmt.Sprint("o", i)}
		mustAppend(t, j, objects[i].event(&now, event.Added))
	}
	const changes = 3000
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		for i := range changes {
			o := objects[rand.IntN(len(objects))]
			op := event.Modified
			switch {
			case o.ordinal == 0:
				op = event.Added
			case rand.IntN(8) == 0:
				op = event.Deleted
			}
			e := o.event(&now, op)
			if op == event.Deleted {
				o.ordinal = 0
			}
			if err := j.Append(t.Context(), []event.Event{e}); err != nil {
				t.Errorf("Append: %v", err)
			}
			if i == changes/2 {
				h.stop()
				h.start()
			}
		}
	}()
	at := make(map[string]uint64) // revision, by name
	alive, told := make(map[string]string), make(map[string]bool)
	run, rounds, repeated := uint64(0), 0, 0
	next := func() {
		run++
		clear(told)
		mustResnapshot(t, c, again(run, "core/configmaps"))
	}
	next()
	last := false
	for more := true; more; {
		for _, e := range read(t, c, 1) {
			if e.Seq > 0 {
				mustCommit(t, c, e.Seq)
			}
			switch x := e.Event; {
			case strings.HasSuffix(x.ID, fmt.Sprint(":synced:r", run)):
				rounds++
				for name, uid := range alive {
					if !told[uid] {
						t.Errorf("run %d: %s was not told of", run, name)
					}
				}
				if more = !last; !more {
					continue
				}
				select {
				case <-appended:
					last = true // the one that follows brings everything
				default:
				}
				next()
			case x.Op.Control():
			case x.ResourceVersion < at[x.Name]:
				t.Errorf("%s follows revision %d", x.ID, at[x.Name])
			default:
				at[x.Name], alive[x.Name], told[x.UID] = x.ResourceVersion, x.UID, true
				if x.Op.Ends() {
					delete(alive, x.Name)
				}
				if e.Seq == 0 {
					repeated++
				}
			}
		}
	}
	if rounds < 2 || repeated < len(objects)/2 {
		t.Errorf("%d rounds, %d states", rounds, repeated)
	}
	t.Logf("%d rounds, %d states", rounds, repeated)
	for _, o := range objects {
		if want := o.ordinal != 0; want != (alive[o.name] != "") || at[o.name] != o.prev {
			t.Errorf("%s ends at %d (%q), want %d", o.name, at[o.name], alive[o.name], o.prev)
		}
	}
}

// TestSnapshotOfWhatIsWatched leaves out what is not, records about it included.
func TestSnapshotOfWhatIsWatched(t *testing.T) {
	j := newHost(t).open(func(c *jetstream.Config) {
		c.Watched = func(e *event.Event) bool { return e.Resource == "configmaps" }
	})
	var now clock
	a := &object{name: "a"}
	old := (&object{name: "old"}).event(&now, event.Added)
	old.Resource, old.Target = "secrets", "core/secrets"
	synced := func(resource string) event.Event {
		target := "core/" + resource
		return event.Event{ID: target + ":5:synced", Op: event.Synced, Cluster: "test", Target: target, Version: "v1", Resource: resource, ResourceVersion: 5}
	}
	mustAppend(t, j, old, synced("secrets"), a.event(&now, event.Added), synced("configmaps"))
	got := show(read(t, mustOpen(t, j, "bus", journal.FromSnapshot), 3))
	if want := describe("0 begin core/configmaps:5:begin", "0 snapshot a-2:2", "4 synced core/configmaps:5:synced"); got != want {
		t.Errorf("entries:\n%swant:\n%s", got, want)
	}
	next := mustOpen(t, j, "next", journal.FromSnapshot)
	mustAppend(t, j, a.event(&now, event.Modified))
	if got := show(read(t, next, 3)); !strings.HasSuffix(got, describe("0 modified a-2:3", "5 synced core/configmaps:5:synced")) || strings.Contains(got, "secrets") {
		t.Errorf("another sink got\n%s", got)
	}
}
