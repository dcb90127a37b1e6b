package dynwatch_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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

// firstListOf checks that the events of a target have one synced event, and returns the objects before it.
func firstListOf(t *testing.T, events []event.Event, target string) (named []string) {
	t.Helper()
	synced := 0
	for _, e := range events {
		switch {
		case e.Target != target:
		case e.Op == event.Synced:
			synced++
		case !e.Op.Control() && synced == 0:
			named = append(named, e.Namespace+"/"+e.Name)
		}
	}
	if synced != 1 {
		t.Errorf("%s has %d synced events, want one", target, synced)
	}
	slices.Sort(named)
	return named
}

// TestBoundsAfterAnEditOfNamespaces: a target that covers the objects of another one begins with a
// first list of its own, which names them all. It also does after a restart.
func TestBoundsAfterAnEditOfNamespaces(t *testing.T) {
	all, named := things(), things()
	named.Namespaces = []string{"a"}
	for name, c := range map[string]struct {
		before, after dynwatch.Resource
		target        string
		objects       []string
	}{
		"to a namespace":    {all, named, "example.com/things@a", []string{"a/x", "a/y"}},
		"to all namespaces": {named, all, "example.com/things", []string{"a/x", "a/y", "b/z"}},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				r := live(t, newFakeAPI(t, "a/x", "a/y", "b/z"), c.before)
				if restarted {
					r.stop(false)
					r.begin(c.after)
				} else if err := r.manager.Apply([]dynwatch.Resource{c.after}); err != nil {
					t.Fatal(err)
				}
				r.eventually("synced", func() bool {
					return slices.ContainsFunc(r.log.all(), func(e event.Event) bool { return e.Op == event.Synced && e.Target == c.target })
				})
				same(t, c.objects, firstListOf(t, r.log.all(), c.target))
				r.caughtUp()
				r.stop(false)
				n := len(r.log.all())
				r.goLive(c.after)
				r.quietFor(200*time.Millisecond, n)
			})
		}
	}
}

// TestNamespacesThereAndBack: a target returns whose objects another one has announced meanwhile. All are announced
// again, as it is not known what was deleted in between, and nothing says that the journal has lost events.
func TestNamespacesThereAndBack(t *testing.T) {
	all, named := things(), things()
	named.Namespaces = []string{"a"}
	for name, c := range map[string]struct {
		first, then dynwatch.Resource
		target      string
	}{
		"from all namespaces": {all, named, "example.com/things"},
		"from a namespace":    {named, all, "example.com/things@a"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x", "a/y", "b/z")
			r := live(t, api, c.first)
			apply := func(wanted dynwatch.Resource) {
				must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
				r.caughtUp()
			}
			apply(c.then)
			n := len(r.log.all())
			apply(c.first)
			firstListOf(t, r.log.all()[n:], c.target)
			r.wantReason(n, "selection")
		})
	}
}
