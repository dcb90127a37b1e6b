package journal_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// TestForgottenObjects: targets do not get a forgotten object back, nor does a new sink. A sink that reads the log
// sees nothing of it. The next event brings the object back, and compaction leaves nothing of it until then.
func TestForgottenObjects(t *testing.T) {
	c := testConfig(t)
	j := openJournal(t, c)
	events := numbered("a", 3)
	must(t, j.Append(t.Context(), events))
	reader, err := j.Open("reader", journal.FromSnapshot)
	must(t, err)
	if got := readAll(t, reader, 3, 10); len(got) != 3 {
		t.Fatalf("%d events", len(got))
	}
	must(t, errors.Join(j.Forget(t.Context(), events[1:]), j.Mark(t.Context(), "core/configmaps", []byte("mark"))))
	known := func(want ...string) {
		t.Helper()
		got := []string{}
		at, err := j.Restore(t.Context(), "core/configmaps", func(e event.Event) { got = append(got, e.Name) })
		if slices.Sort(got); err != nil || string(at.Mark) != "mark" || !slices.Equal(got, want) {
			t.Errorf("known are %q, want %q; %v", got, want, err)
		}
		for i := range events {
			_, is, err := j.Last(t.Context(), &events[i])
			if err != nil || is != slices.Contains(want, events[i].Name) {
				t.Errorf("the last event of %s is there: %t, %v", events[i].Name, is, err)
			}
		}
	}
	known("na0")
	if got, err := journal.Poll(t.Context(), reader, 10); len(got) > 0 || err != nil || j.Stats().LastSeq != 3 {
		t.Errorf("a sink got %v of it, %v", got, err)
	}
	kept := 0
	err = j.History().Each(t.Context(), journal.Object{Group: "core", Resource: "configmaps", Namespace: "default", Name: "na2"}, func(event.Event) error {
		kept++
		return nil
	})
	if err != nil || kept != 1 {
		t.Errorf("the history of a forgotten object has %d events, %v", kept, err)
	}

	must(t, journal.Crash(j))
	j = openJournal(t, c)
	known("na0")
	late, err := j.Open("late", journal.FromSnapshot)
	must(t, err)
	if got := readAll(t, late, 1, 10); got[0].Event.Name != "na0" {
		t.Errorf("a new sink got %s", got[0].Event.ID)
	}
	if got, err := journal.Poll(t.Context(), late, 10); len(got) > 0 || err != nil {
		t.Errorf("a new sink got %v, too; %v", got, err)
	}
	must(t, j.Append(t.Context(), events[1:2]))
	known("na0", "na1")
	got := readAll(t, late, 1, 10)
	reader, err = j.Open("reader", journal.FromSnapshot)
	must(t, errors.Join(err, late.Commit(got[0].Seq), reader.Commit(got[0].Seq)))
	for range 3 { // each seals a segment
		must(t, j.Close())
		j = openJournal(t, c)
		journal.Alone(j)
		if _, err := j.Open("late", journal.FromSnapshot); err != nil {
			t.Fatal(err)
		}
		must(t, journal.Clear(t.Context(), j, true))
	}
	known("na0", "na1")
	left, err := journal.Events(j)
	names := []string{}
	for _, e := range left {
		names = append(names, fmt.Sprint(e.Event.Name, " ", e.Seq > 3))
	}
	if want := []string{"na0 false", "na1 true"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("left are %q, want %q; %v", names, want, err)
	}
	must(t, j.Close())
}

// TestElsewhere: a target that covers objects of another one learns how many have their last event there.
func TestElsewhere(t *testing.T) {
	const all, one, other = "core/configmaps", "core/configmaps@default", "core/configmapsets@default"
	l := newLogTest(t)
	l.add("begin 3", "added a", "added b", "added c")
	for target, what := range map[string][]string{one: {"modified a", "deleted b"}, other: {"added d"}} {
		for _, name := range what {
			e := l.event(name)
			e.Target = target
			l.append(e)
		}
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			l.restart(false)
		}
		for target, want := range map[string]int{all: 2, one: 1, other: 0, "core/configmaps@x": 1} {
			at, err := l.Restore(t.Context(), target, func(event.Event) {})
			if l.ok(err); at.Elsewhere() != want {
				t.Errorf("%s has %d objects elsewhere, want %d", target, at.Elsewhere(), want)
			}
		}
	}
}
