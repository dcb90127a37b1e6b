//go:build long

package dynwatch_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/informd/informd/pkg/event"
)

// labelOf is the label of the event's object.
func labelOf(t *testing.T, e *event.Event) string {
	t.Helper()
	var o struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(e.Object(), &o); err != nil {
		t.Fatalf("%s: %v in %s", e.ID, err, e.Data)
	}
	return o.Metadata.Labels["on"]
}

// TestSinkFilters: events say which change filters of sinks see no change, against the
// event before and not against what was held back. Those of a
// re-snapshot do not: a sink needs an event of each object.
func TestSinkFilters(t *testing.T) {
	api := newFakeAPI(t, "a/x 1")
	wanted := things()
	wanted.SinkFilters = []string{"metadata.labels", "spec"}
	r := live(t, api, wanted)
	api.put("a", "x", "1")
	api.put("a", "x", "2")
	r.caughtUp()
	r.eventually("events", func() bool { return len(r.log.all()) == 4 })
	var told []int
	for _, e := range r.log.all() {
		if e.Op != event.Synced {
			told = append(told, len(e.Unchanged))
		}
	}
	if want := []int{0, 1, 0}; !slices.Equal(told, want) {
		t.Errorf("unchanged are %v, want %v", told, want)
	}
	// A list that hangs would hold up the watch.
	api.keepRefusing(func(r *http.Request) bool { return ofThings(r) && verbOf(r) == "list" }, answers()["500"])
	done := make(chan error)
	go func() {
		_, err := r.manager.Resnapshot(t.Context(), "things")
		done <- err
	}()
	r.eventually("the beginning", func() bool { return count(r.log.all(), event.Begin) == 1 })
	api.put("a", "x", "2")
	r.eventually("a change meanwhile", func() bool { return count(r.log.all(), event.Modified) == 3 })
	api.admit()
	must(t, <-done)
	again := false
	for _, e := range r.log.all()[4:] {
		again = again || e.Op == event.Snapshot && len(e.Unchanged) == 0
	}
	if !again {
		t.Errorf("a sink may filter out all of %q", r.since(4))
	}
}

// TestRandomFilters lets things change, with restarts and lost history, and holds the
// stream to what a change filter promises: every modified event has another label than the event
// before, and the last label always comes.
func TestRandomFilters(t *testing.T) { rounds(t, 6, randomlyFiltered) }

func randomlyFiltered(t *testing.T, rnd *rand.Rand, round uint64) {
	faulty, selecting := round%2 == 1, round%3 == 2
	api := newFakeAPI(t)
	wanted := filtered()
	if selecting {
		wanted.LabelSelector = "on=yes"
		wanted.EmitWhen.Changed = []string{"metadata.labels", "status.phase"}
	}
	r := live(t, api, wanted)
	faults := []func(){
		api.cut, api.forget, r.caughtUp, func() { api.forget(); api.compact() },
		func() { r.stop(rnd.IntN(2) == 0); r.begin(wanted) },
		func() {
			r.stop(true)
			for range 3 { // only lists tell of these
				api.put("a", fmt.Sprint("n", rnd.IntN(6)), []string{"yes", "no"}[rnd.IntN(2)])
			}
			api.forget()
			if rnd.IntN(2) == 0 {
				api.compact()
			}
			r.begin(wanted)
		},
		func() { _, _ = r.manager.Audit(t.Context()) },
	}
	for range 400 {
		name := fmt.Sprint("n", rnd.IntN(6))
		if rnd.IntN(12) == 0 {
			api.del("a", name)
		} else {
			api.put("a", name, []string{"yes", "yes", "yes", "no"}[rnd.IntN(4)])
		}
		if faulty && rnd.IntN(20) == 0 {
			faults[rnd.IntN(len(faults))]()
		} else if rnd.IntN(8) == 0 {
			r.caughtUp()
		}
	}
	r.caughtUp()
	r.wantAudit(0)
	last := make(map[string]event.Event) // by uid
	for _, e := range r.log.all() {
		if e.Op.Control() {
			continue
		}
		before, known := last[e.UID]
		if known && before.Op != event.Left && (e.PrevResourceVersion != before.ResourceVersion || e.Ordinal != before.Ordinal+1) {
			t.Errorf("%s follows %s", lines([]event.Event{e}), lines([]event.Event{before}))
		}
		if e.Op == event.Modified && labelOf(t, &e) == labelOf(t, &before) {
			t.Errorf("%s changes nothing", lines([]event.Event{e}))
		}
		last[e.UID] = e
	}
	for _, c := range api.state() {
		e, ok := last[c.uid]
		switch {
		case selecting && c.label == "no":
			if ok && !e.Op.Ends() {
				t.Errorf("%s ends with %s, and does not match", c.name, lines([]event.Event{e}))
			}
		case !ok || e.Op.Ends() || labelOf(t, &e) != c.label:
			t.Errorf("%s is %s, and the last event %s", c.name, c.label, lines([]event.Event{e}))
		}
	}
	if faulty {
		return
	}
	if held := r.manager.Targets()[0].Unchanged; held < 50 {
		t.Errorf("only %d states were held back", held)
	}
}
