package dynwatch_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// checkFirstList looks at a first list: the begin event, every object and the synced event
// have the same run. At most so many gaps say that the list was begun again. It returns the run.
func checkFirstList(t *testing.T, r *rig, objects, gaps int) uint64 {
	t.Helper()
	begun := r.log.begun()
	if len(begun) != 1 {
		t.Fatalf("begin events: %+v", begun)
	}
	run, ops := begun[0].Run, make(map[event.Op]int)
	if want := fmt.Sprintf("example.com/things:%d:begin:r%d", begun[0].ResourceVersion, run); run == 0 || begun[0].ID != want {
		t.Errorf("begin event %+v, want id %s", begun[0], want)
	}
	for _, e := range r.log.all() {
		if ops[e.Op]++; e.Op != event.Gap && (e.Run != run || !strings.HasSuffix(e.ID, fmt.Sprintf(":r%d", run))) {
			t.Errorf("%s %s has run %d, want %d", e.Op, e.ID, e.Run, run)
		}
	}
	announced := len(r.log.all()) - ops[event.Synced] - ops[event.Gap]
	if announced != objects || ops[event.Synced] != 1 || ops[event.Gap] > gaps {
		t.Errorf("%d objects and %v, want %d objects and one synced event", announced, ops, objects)
	}
	return run
}

func TestFirstListIsARun(t *testing.T) {
	api := newFakeAPI(t, "a/x", "b/y")
	r := live(t, api, things())
	run := checkFirstList(t, r, 2, 0)
	n := len(r.log.all())
	api.put("a", "x", "")
	api.put("a", "z", "")
	api.del("b", "y")
	r.caughtUp()
	for _, e := range r.log.all()[n:] {
		if e.Run != 0 || strings.Contains(e.ID, ":r") {
			t.Errorf("live event %s has run %d", e.ID, e.Run)
		}
	}
	// A journal that was lost: nothing is known, and another run says so.
	r.stop(false)
	r.log = newRecorder()
	r.goLive(things())
	if again := checkFirstList(t, r, 2, 0); again <= run {
		t.Errorf("run %d after run %d", again, run)
	}
}

// TestFirstListOverARestart: a first list that a restart breaks off is continued in the
// same run, with one beginning.
func TestFirstListOverARestart(t *testing.T) {
	for name, kill := range map[string]bool{"a stop": false, "a kill": true} {
		t.Run(name, func(t *testing.T) {
			const n = 600 // two pages
			api := newFakeAPI(t)
			for i := range n {
				api.put("a", fmt.Sprint("object-", i), "")
			}
			api.keepRefusing(func(r *http.Request) bool {
				return strings.Contains(r.URL.RawQuery, "continue=")
			}, refusal(503, "ServiceUnavailable", "later"))
			r := start(t, api, things())
			r.eventually("the first page", func() bool { return len(r.log.all()) >= 200 && api.requestsWith("continue=") > 0 })
			if _, err := r.manager.Brackets("things"); !errors.Is(err, dynwatch.ErrNotListed) {
				t.Errorf("a snapshot for one sink meanwhile: %v", err)
			}
			r.stop(kill)
			api.admit()
			r.goLive(things())
			r.eventually("the end", func() bool { return r.manager.Targets()[0].Synced })
			checkFirstList(t, r, n, n)
		})
	}
}
