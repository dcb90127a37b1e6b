package dynwatch_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// restarted starts a target with two objects, ends it, and returns the number of
// events so far.
func restarted(t *testing.T, kill bool, meanwhile func(api *fakeAPI)) (*rig, int) {
	t.Helper()
	api := newFakeAPI(t, "a/x", "a/y")
	r := live(t, api, things())
	api.put("a", "x", "")
	r.caughtUp()
	r.eventually("events", func() bool { return len(r.log.all()) == 4 })
	r.stop(kill)
	n := len(r.log.all())
	meanwhile(api)
	r.begin(things())
	return r, n
}

// A deletion that only a list tells of carries what the journal held last.
func TestDeletionFoundAfterDowntimeCarriesTheLastState(t *testing.T) {
	r, n := restarted(t, true, func(api *fakeAPI) {
		api.del("a", "x")
		api.forget()
		api.compact()
	})
	r.until(n, event.Deleted)
	r.caughtUp()
	checkStream(t, r.log.all(), r.api)
	var before, deletion event.Event
	for _, e := range r.log.all() {
		if e.Name == "x" && e.Op == event.Deleted {
			deletion = e
			break
		} else if e.Name == "x" {
			before = e
		}
	}
	if string(deletion.Object()) != string(before.Object()) || len(before.Object()) == 0 {
		t.Errorf("the deletion's object is %s, want %s", deletion.Object(), before.Object())
	}
}

// announcesAll waits until a snapshot is complete that names all objects, behind the first n
// events, and until a later process would not repeat it.
func (r *rig) announcesAll(n int) {
	r.t.Helper()
	r.eventually("a snapshot of all objects", func() bool {
		named := map[uint64]map[string]bool{} // by run
		for _, e := range r.log.all()[n:] {
			if e.Op == event.Synced {
				return len(named[e.Run]) == len(r.api.state())
			}
			if named[e.Run] == nil {
				named[e.Run] = map[string]bool{}
			}
			if !e.Op.Control() && !e.Op.Ends() && e.Run != 0 {
				named[e.Run][e.Namespace+"/"+e.Name] = true
			}
		}
		return false
	})
	r.eventually("a mark that says so", func() bool {
		marks := r.log.marksNow()
		return len(marks) == 1 && !bytes.Contains(marks["example.com/things"], []byte("journal"))
	})
}

// TestLostJournalIsAnnouncedByALaterProcess: a process that dies before it has announced
// all objects again leaves that to the next one.
func TestLostJournalIsAnnouncedByALaterProcess(t *testing.T) {
	narrower := things()
	narrower.LabelSelector = "app=web"
	for name, test := range map[string]struct {
		meanwhile func(api *fakeAPI)
		wanted    dynwatch.Resource
		gaps      []string
	}{
		"alone":                         {func(*fakeAPI) {}, things(), []string{"journal"}},
		"and etcd is restored":          {func(api *fakeAPI) { api.rollBack(102) }, things(), []string{"rollback", "journal"}},
		"and the selection is narrowed": {func(api *fakeAPI) { api.put("a", "y", "web") }, narrower, []string{"journal"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := restarted(t, false, func(*fakeAPI) {})
			r.caughtUp()
			r.stop(false)
			r.log.set(func() {
				mark := r.log.marks["example.com/things"]
				r.log.marks["example.com/things"] = append(bytes.TrimSuffix(mark, []byte("}")), `,"lost":"journal"}`...)
			})
			test.meanwhile(r.api)
			n := len(r.log.all())
			r.begin(test.wanted)
			r.eventually("a snapshot", func() bool { return count(r.log.all()[n:], event.Synced) == 1 })
			var gaps []string
			for _, e := range r.log.all()[n:] {
				if e.Op == event.Gap {
					gaps = append(gaps, e.Gap.Reason)
				}
			}
			same(t, test.gaps, gaps)
			if test.wanted.LabelSelector == "" {
				r.announcesAll(n)
			}
		})
	}
}

// What the index has and the log has not taken is not in the mark: else the log
// would look as if it had lost it.
func TestStopWhileTheLogIsFull(t *testing.T) {
	r, _ := restarted(t, false, func(*fakeAPI) {})
	r.caughtUp()
	release := r.log.hold()
	r.api.put("a", "new", "")
	r.eventually("blocked", func() bool { return !r.manager.Targets()[0].BlockedSince.IsZero() })
	r.stop(false)
	release()
	r.goLive(things())
	for _, e := range r.log.all() {
		if e.Op == event.Gap {
			t.Errorf("gap %+v", *e.Gap)
		}
	}
	checkStream(t, r.log.all(), r.api)
}

// A mark that is gone, while objects are known, is lost history: it is declared. So is a journal that was emptied
// behind informd's back, though the mark is there.
func TestLostJournalIsDeclared(t *testing.T) {
	for name, lose := range map[string]func(log *recorder){
		"the mark":   func(log *recorder) { clear(log.marks) },
		"all events": func(log *recorder) { log.events = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := restarted(t, false, func(*fakeAPI) {})
			r.caughtUp()
			r.stop(false)
			r.log.set(func() { lose(r.log) })
			n := len(r.log.all())
			r.api.put("a", "x", "")
			r.api.del("a", "y")
			r.goLive(things())
			r.untilGap(n, "journal")
			r.announcesAll(n)
			checkStream(t, r.log.all(), r.api)
		})
	}
}

// After a restart in another epoch the same revision can mean another state.
func TestRollbackDuringDowntime(t *testing.T) {
	r, n := restarted(t, false, func(*fakeAPI) {})
	r.caughtUp()
	rev := r.api.revisionNow()
	r.api.put("a", "x", "")
	r.caughtUp()
	r.stop(false)
	r.api.rollBack(rev)
	r.begin(things())
	r.untilGap(n, "rollback")
	var told []string
	for _, e := range r.log.all()[n:] {
		if e.Name == "y" {
			told = append(told, e.ID)
		}
	}
	if len(told) > 0 {
		t.Errorf("y is what it was, and yet %q", told)
	}
}

// What ended at a revision that a rollback has undone says nothing about that
// revision's second coming.
func TestRestartAfterARollbackSeesWhatTakesAnOldName(t *testing.T) {
	r, _ := restarted(t, false, func(*fakeAPI) {})
	r.caughtUp()
	rev := r.api.revisionNow()
	r.api.put("a", "brief", "")
	r.api.putTimes(5, "a", "x", "")
	r.api.del("a", "brief")
	r.caughtUp()
	r.api.rollBack(rev)
	r.untilEpoch(1)
	r.caughtUp()
	r.stop(false)
	n := len(r.log.all())
	r.goLive(things())
	r.api.put("a", "brief", "")
	r.caughtUp()
	r.eventually("the new object", func() bool { return len(r.log.all()) == n+1 })
}

// TestEpochOfALostJournal: etcd was restored, and the log has then lost all events of the new
// epoch, but not the mark. The next epoch is one that no event had.
func TestEpochOfALostJournal(t *testing.T) {
	r, _ := restarted(t, false, func(*fakeAPI) {})
	r.caughtUp()
	rev := r.api.revisionNow()
	r.api.putTimes(5, "a", "x", "")
	r.caughtUp()
	before := len(r.log.all())
	r.api.rollBack(rev)
	r.untilEpoch(1)
	r.api.put("a", "x", "")
	r.caughtUp()
	r.stop(false)
	sent := r.log.all()
	r.log.set(func() { r.log.events, r.log.void = r.log.events[:before], true })
	r.begin(things())
	r.eventually("a snapshot", func() bool { return count(r.log.all()[before:], event.Synced) == 1 })
	r.api.put("a", "x", "")
	r.caughtUp()
	r.eventually("the last state", func() bool {
		last := r.log.all()[len(r.log.all())-1]
		return last.Name == "x" && last.Epoch == 2
	})
	ids := make(map[string]bool)
	for _, e := range append(sent, r.log.all()[before:]...) {
		if ids[e.ID] {
			t.Errorf("%s is repeated", e.ID)
		}
		ids[e.ID] = true
	}
	r.announcesAll(before)
}

// TestRestoreBehindALostJournal: the log has lost everything but the mark, and etcd was restored
// meanwhile. The same revisions of the other history have ids of another epoch.
func TestRestoreBehindALostJournal(t *testing.T) {
	r, _ := restarted(t, false, func(*fakeAPI) {})
	r.caughtUp()
	rev := r.api.revisionNow()
	r.api.put("a", "x", "")
	r.api.put("a", "x", "")
	r.caughtUp()
	r.stop(false)
	r.log.set(func() { r.log.events, r.log.void = nil, true })
	r.api.rollBack(rev)
	r.api.put("a", "x", "")
	r.begin(things())
	r.eventually("a snapshot", func() bool { return count(r.log.all(), event.Synced) == 1 })
	for _, e := range r.log.all() {
		if e.Name == "x" && e.Epoch != 1 {
			t.Errorf("%s is of epoch %d", e.ID, e.Epoch)
		}
	}
	r.announcesAll(0)
}

// TestStatesAreAnnounced: the log has every state that lasts, once, and a restart that
// changes nothing adds none.
func TestStatesAreAnnounced(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	announced := func() (states []string) {
		for _, e := range r.log.statesNow() {
			state, reason := e.TargetState()
			if e.Target != "example.com/things" || (state == "live") != (reason == "") {
				t.Errorf("state record %+v: %s", e, e.Data)
			}
			states = append(states, state)
		}
		return states
	}
	want := func(last string) {
		t.Helper()
		r.eventually("state "+last, func() bool {
			states := announced()
			return len(states) > 0 && states[len(states)-1] == last
		})
	}
	want("live")
	api.keepRefusing(anything, func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) })
	api.cut() // a cut alone may make it stale first
	want("forbidden")
	for range 3 { // nothing changes, but that informd dies
		before := announced()
		r.stop(true)
		r.begin(things())
		r.state(dynwatch.Forbidden)
		same(t, before, announced())
	}
	api.admit()
	want("live")
	states := announced()
	if len(slices.Compact(slices.Clone(states))) != len(states) {
		t.Errorf("states %v: one came twice in a row", states)
	}
	r.stop(false)
	r.begin(things())
	api.put("a", "x", "")
	r.caughtUp()
	same(t, states, announced())
}

// TestLogLostBefore: a process that begins with a log which has lost everything says so,
// also if it dies before its first list is complete.
func TestLogLostBefore(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := newRig(t, api)
	r.log.void = true
	r.goLive(things())
	r.until(0, event.Synced)
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
			api := newFakeAPI(t, "a/x 1", "a/y 1")
			r, n := liveFrom(t, api, wanted)
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
