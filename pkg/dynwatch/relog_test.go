package dynwatch_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// loseAll empties the log as the deletion of a journal's streams does, and returns how
// many events there were.
func (r *recorder) loseAll() (before []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.events = r.events, nil
	clear(r.marks)
	return before
}

// TestLogLost: a target whose log has lost everything says so, continues its ordinals and
// announces all objects again, so that the next process knows them all.
func TestLogLost(t *testing.T) {
	api := newFakeAPI(t)
	api.put("a", "x", "")
	api.put("a", "y", "")
	api.put("a", "z", "")
	r := start(t, api, things())
	r.caughtUp()
	api.put("a", "x", "")
	r.caughtUp()
	r.eventually("events", func() bool { return len(r.log.all()) == 5 })

	before := r.log.loseAll()
	api.del("a", "y") // which is known to the process
	r.eventually("the deletion", func() bool { return len(r.log.all()) == 1 })
	r.manager.LogReplaced(true)
	r.eventually("the end of the snapshot", func() bool { return count(r.log.all(), event.Synced) == 1 })
	got := lines(r.log.all())
	if !strings.HasPrefix(got[0], "deleted a/y") || !strings.HasPrefix(got[1], "gap (0,") || !strings.Contains(got[1], "journal state") {
		t.Errorf("the log begins with\n%s", strings.Join(got, "\n"))
	}
	ordinals := make(map[string]uint64)
	for _, e := range slices.Concat(before, r.log.all()) {
		if e.Op.Control() {
			continue
		}
		if e.Ordinal != ordinals[e.UID]+1 {
			t.Errorf("%s has ordinal %d after %d", e.ID, e.Ordinal, ordinals[e.UID])
		}
		ordinals[e.UID] = e.Ordinal
	}
	if n := count(r.log.all(), event.Snapshot); n != 2 {
		t.Errorf("%d objects announced again, want 2:\n%s", n, strings.Join(got, "\n"))
	}

	r.stop(false)
	n := len(r.log.all())
	api.del("a", "x")
	r.begin(things())
	r.caughtUp()
	r.eventually("the deletion while down", func() bool { return len(r.log.all()) == n+1 })
	if last := r.log.all()[n]; last.Op != event.Deleted || last.Name != "x" {
		t.Errorf("after the restart:\n%s", strings.Join(r.since(n), "\n"))
	}
}

// TestLogLostAmidTheFirstList: the list is not complete before the log has all of it.
func TestLogLostAmidTheFirstList(t *testing.T) {
	api := newFakeAPI(t)
	api.fill(100)
	gate := make(chan struct{})
	r := startOn(t, api, func(log *recorder) { log.gate = gate }, func(*dynwatch.Limits) {}, things())
	r.eventually("the first events are on their way", func() bool { return r.manager.Targets()[0].BlockedSince != time.Time{} })
	r.manager.LogReplaced(true)
	close(gate)
	r.caughtUp()
	all := r.log.all()
	if n := count(all, event.Synced); n != 1 {
		t.Errorf("%d times synced, want once", n)
	}
	end := all[len(all)-1]
	named := make(map[string]bool)
	for _, e := range all {
		if e.Op == event.Snapshot && e.Run == end.Run {
			named[e.Name] = true
		}
	}
	if end.Op != event.Synced || len(named) != 100 {
		t.Errorf("the log ends with %s, of a run with %d objects, want synced with 100", end.Op, len(named))
	}
	if gap := all[len(all)-2]; gap.Op != event.Gap || gap.Gap.Reason != "journal" {
		t.Errorf("before it is %s, want a gap of the journal", gap.ID)
	}
}

// TestMarksLost: a log that has lost marks only gets them again, and no event.
func TestMarksLost(t *testing.T) {
	api := newFakeAPI(t)
	api.put("a", "x", "")
	r := start(t, api, things())
	r.caughtUp()
	r.eventually("the mark", func() bool { return len(r.log.marksNow()) == 1 })
	n := len(r.log.all())
	r.log.set(func() { clear(r.log.marks) })
	r.manager.LogReplaced(false)
	r.eventually("the mark is there again", func() bool { return len(r.log.marksNow()) == 1 })
	if got := r.since(n); len(got) > 0 {
		t.Errorf("events %q", got)
	}
}

// TestLogLostBefore: a process that begins with a log which has lost everything says so,
// also if it dies before its first list is complete.
func TestLogLostBefore(t *testing.T) {
	api := newFakeAPI(t)
	api.put("a", "x", "")
	r := startOn(t, api, func(log *recorder) { log.void = true }, func(*dynwatch.Limits) {}, things())
	r.caughtUp()
	r.eventually("synced", func() bool { return count(r.log.all(), event.Synced) == 1 })
	got := lines(r.log.all())
	if len(got) != 3 || !strings.HasPrefix(got[0], "snapshot a/x") || !strings.HasPrefix(got[1], "gap (0,") || !strings.Contains(got[1], "journal state") {
		t.Errorf("events\n%s", strings.Join(got, "\n"))
	}
}

func count(events []event.Event, op event.Op) (n int) {
	for i := range events {
		if events[i].Op == op {
			n++
		}
	}
	return n
}

// TestLostJournalAnnouncesTheUnchanged: behind a void checkpoint an object comes again also if
// nothing has changed since its last event that a change filter of the resource, or of a reader
// of the log, asks about.
func TestLostJournalAnnouncesTheUnchanged(t *testing.T) {
	ofReader := things()
	ofReader.SinkFilters = []string{"metadata.labels"}
	for name, wanted := range map[string]dynwatch.Resource{"of the resource": filtered(), "of a reader": ofReader} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.put("a", "x", "1")
			api.put("a", "y", "1")
			r := start(t, api, wanted)
			r.caughtUp()
			n := len(r.log.all())
			r.stop(false)
			r.log.set(func() { r.log.void = true })
			api.put("a", "x", "1") // 103
			r.begin(wanted)
			r.announcesAll(n)
			for _, e := range r.log.all()[n:] {
				if !e.Op.Control() && e.Op != event.Snapshot {
					t.Errorf("%s: a change filter decides about it", lines([]event.Event{e}))
				}
			}
			checkStream(t, r.log.all(), r.api)
		})
	}
}
