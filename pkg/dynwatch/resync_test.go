package dynwatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// handClock stands until it is moved.
type handClock struct {
	mu  sync.Mutex
	at  time.Time
	was int // how often it was looked at
}

// newHandClock begins at the third part of an hour, 10:20.
func newHandClock() *handClock {
	return &handClock{at: time.Date(2026, 11, 20, 10, 20, 0, 0, time.UTC)}
}

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.was++
	return c.at
}

func (c *handClock) move(d time.Duration) (was int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.was
}

func (c *handClock) looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.was
}

const (
	runAt10 = 1795168800_000 // 2026-11-20T10:00:00Z
	runAt11 = runAt10 + 3600_000
)

func resynced() dynwatch.Resource {
	r := things()
	r.Resync = time.Hour
	return r
}

// startResync is start with a clock of the test's.
func startResync(t *testing.T, api *fakeAPI, c *handClock, wanted dynwatch.Resource) *rig {
	t.Helper()
	r := start(t, api)
	r.goOn(c, wanted)
	return r
}

func (r *rig) goOn(c *handClock, wanted dynwatch.Resource) {
	r.t.Helper()
	r.manager.SetTiming(time.Hour, 5*time.Millisecond, 5*time.Millisecond)
	r.manager.SetClock(c.now)
	if err := r.manager.Apply([]dynwatch.Resource{wanted}); err != nil {
		r.t.Fatal(err)
	}
	r.caughtUp()
}

// pass moves the clock, in steps that the target keeps up with.
func (r *rig) pass(c *handClock, d time.Duration) {
	r.t.Helper()
	r.passBy(c, d, 2*time.Minute) // less than what one look takes in
}

// passBy is pass in steps that leave time to catch up.
func (r *rig) passBy(c *handClock, d, step time.Duration) {
	r.t.Helper()
	look := func(moved time.Duration) {
		was := c.move(moved)
		r.eventually("a look at the clock", func() bool { return c.looks() > was+2 })
	}
	for ; d > 0; d -= step {
		look(min(step, d))
	}
	look(0) // what was ready has been read
}

// reannounced are the ids of what was announced anew.
func (r *rig) reannounced() (ids []string) {
	for _, e := range r.log.all() {
		if e.Reannounced() {
			if !e.Replay {
				r.t.Errorf("%s is no replay", e.ID)
			}
			ids = append(ids, e.ID)
		}
	}
	return sorted(ids)
}

func TestResync(t *testing.T) {
	api, c := fourObjects(t), newHandClock()
	c.at = c.at.Truncate(time.Hour)
	r := startResync(t, api, c, resynced())
	r.pass(c, time.Hour)
	want := []string{
		fmt.Sprintf("uid-1:101:r%d", runAt10), fmt.Sprintf("uid-2:102:r%d", runAt10),
		fmt.Sprintf("uid-3:103:r%d", runAt10), fmt.Sprintf("uid-4:104:r%d", runAt10),
	}
	if diff := cmp.Diff(want, r.reannounced()); diff != "" {
		t.Fatal(diff)
	}
	// The chain goes on, whatever comes next.
	api.put("a", "changed", "")
	api.del("a", "deleted")
	r.caughtUp()
	r.pass(c, time.Hour)
	want = append(want, fmt.Sprintf("uid-1:105:r%d", runAt11), fmt.Sprintf("uid-3:103:r%d", runAt11), fmt.Sprintf("uid-4:104:r%d", runAt11))
	if diff := cmp.Diff(sorted(want), r.reannounced()); diff != "" {
		t.Error(diff)
	}
	for _, e := range r.log.all() {
		if e.Reannounced() && !strings.Contains(string(e.Data), fmt.Sprintf(`"spec":{"rev":%d}`, e.ResourceVersion)) {
			t.Errorf("%s has %s", e.ID, e.Data)
		}
	}
	checkStream(t, r.log.all(), api)
	if s := r.manager.Targets()[0]; s.Watches != 1 || s.State != dynwatch.Live {
		t.Errorf("status %+v", s)
	}
}

// A round goes on over a restart: every object is announced in it once.
func TestResyncOverRestarts(t *testing.T) {
	for name, kill := range map[string]bool{"a stop": false, "a kill": true} {
		t.Run(name, func(t *testing.T) {
			api, c := newFakeAPI(t), newHandClock()
			for i := range 40 {
				api.put("a", fmt.Sprint("object-", i), "")
			}
			c.at = c.at.Truncate(time.Hour)
			r := startResync(t, api, c, resynced())
			r.pass(c, 28*time.Minute)
			before := len(r.reannounced())
			if before == 0 || before == 40 {
				t.Fatalf("%d objects in the first half", before)
			}
			r.stop(kill)
			c.move(6 * time.Minute)
			r.begin()
			r.goOn(c, resynced())
			r.passBy(c, 26*time.Minute, 30*time.Second)
			ids := r.reannounced()
			if kill {
				// Marks were lost: the round goes on where the last one says, and what
				// the log has of it is not repeated.
				ids = slices.Compact(ids)
			}
			if len(ids) != 40 || !strings.HasSuffix(ids[0], fmt.Sprintf(":r%d", runAt10)) {
				t.Errorf("%d objects in a round, the first is %s", len(ids), ids[0])
			}
			checkStream(t, r.log.all(), api)
		})
	}
}

// What the watch has not told yet is not announced, nor what is older than what it
// has told.
func TestResyncLeavesTheNewsToTheWatch(t *testing.T) {
	for name, test := range map[string]struct {
		write func(api *fakeAPI)
		want  []string
	}{
		"a change": {
			func(api *fakeAPI) { api.put("a", "changed", "") },
			[]string{"modified a/changed uid-1 105<101"},
		},
		"a deletion": {
			func(api *fakeAPI) { api.del("a", "changed") },
			[]string{"deleted a/changed uid-1 105<101"},
		},
		"a re-creation": {
			func(api *fakeAPI) { api.del("a", "changed"); api.put("a", "changed", "") },
			[]string{"added a/changed uid-5 106", "deleted a/changed uid-1 105<101"},
		},
		"an older state": {
			func(api *fakeAPI) {
				api.do(func() {
					api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
						stale := strings.Contains(r.URL.Query().Get("fieldSelector"), "changed")
						if stale {
							api.mu.Lock()
							defer api.mu.Unlock()
							c := api.history[0]
							c.rev--
							fmt.Fprintf(w, `{"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"100"},"items":[%s]}`, api.body(r, c))
						}
						return stale
					}
				})
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, c := fourObjects(t), newHandClock()
			r := startResync(t, api, c, resynced())
			n := len(r.log.all())
			api.do(func() { api.mute = true })
			test.write(api)
			r.pass(c, time.Hour)
			if ids := r.reannounced(); len(ids) != 3 || !strings.HasPrefix(ids[0], "uid-2:") {
				t.Errorf("announced anew: %q", ids)
			}
			api.do(func() { api.mute = false })
			r.caughtUp()
			var news []string
			for i, line := range r.since(n) {
				if !r.log.all()[n+i].Reannounced() {
					news = append(news, line)
				}
			}
			if diff := cmp.Diff(test.want, sorted(news)); diff != "" {
				t.Error(diff)
			}
			checkStream(t, r.log.all(), api)
		})
	}
}

func TestResyncAfterARollback(t *testing.T) {
	api, c := fourObjects(t), newHandClock()
	r := startResync(t, api, c, resynced())
	api.rollBack(103)
	r.eventually("an epoch", func() bool { return r.manager.Targets()[0].Epoch == 1 })
	api.put("a", "new", "")
	r.caughtUp()
	r.pass(c, time.Hour)
	for _, id := range r.reannounced() {
		if _, run, epoch := event.ParseID(id); run == 0 || epoch != 1 {
			t.Errorf("id %s", id)
		}
	}
	if n := len(r.reannounced()); n != 4 {
		t.Errorf("%d objects", n)
	}
}

// A failure to read delays what is due and touches nothing else.
func TestResyncOutlastsFailures(t *testing.T) {
	api, c := fourObjects(t), newHandClock()
	r := startResync(t, api, c, resynced())
	failures := 2
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			api.mu.Lock()
			defer api.mu.Unlock()
			if failures == 0 || r.URL.Query().Get("fieldSelector") == "" {
				return false
			}
			failures--
			writeStatus(w, 500, "InternalError", "not now")
			return true
		}
	})
	step := func() bool {
		c.move(30 * time.Second)
		return len(r.reannounced()) >= 4
	}
	r.eventually("all objects", step)
	if s := r.manager.Targets()[0]; s.State != dynwatch.Live || s.Watches != 1 || failures != 0 {
		t.Errorf("status %+v, %d failures left", s, failures)
	}
	checkStream(t, r.log.all(), api)
}

// An object that cannot be read is left out, and those that are due after it are not.
func TestResyncPassesOverAnUnreadableObject(t *testing.T) {
	api, c := fourObjects(t), newHandClock()
	r, out := listen(t, api)
	first := "" // the name that was asked for first
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
			if !ok {
				return false
			}
			api.mu.Lock()
			defer api.mu.Unlock()
			if first == "" {
				first = name
			}
			if name == first {
				writeStatus(w, 500, "InternalError", "cannot decode the object")
			}
			return name == first
		}
	})
	r.goOn(c, resynced())
	r.pass(c, time.Hour)
	r.eventually("the other objects", func() bool { return len(r.reannounced()) == 3 })
	var bad string
	api.do(func() { bad = first })
	r.eventually("a line that names the object", func() bool {
		return slices.ContainsFunc(out.with("left out of the scheduled re-snapshot"), func(line string) bool { return strings.Contains(line, "name="+bad+" ") })
	})
}

// A server that ignores field selectors answers with all objects.
func TestResyncWithoutFieldSelectors(t *testing.T) {
	api, c := fourObjects(t), newHandClock()
	api.do(func() { api.unselecting = true })
	r := startResync(t, api, c, resynced())
	r.eventually("all objects", func() bool {
		c.move(30 * time.Second)
		return len(r.reannounced()) >= 4
	})
	checkStream(t, r.log.all(), api)
}

func TestResyncOfTheSelection(t *testing.T) {
	api, c := newFakeAPI(t), newHandClock()
	api.put("a", "in", "yes")
	api.put("a", "out", "no")
	wanted := resynced()
	wanted.LabelSelector = "on=yes"
	r := startResync(t, api, c, wanted)
	r.pass(c, time.Hour)
	if ids := r.reannounced(); len(ids) != 1 || !strings.HasPrefix(ids[0], "uid-1:101:r") {
		t.Errorf("announced anew: %q", ids)
	}
}

func TestResyncIsAtLeastAMinute(t *testing.T) {
	r := start(t, newFakeAPI(t))
	wanted := things()
	wanted.Resync = 59 * time.Second
	if err := r.manager.Check([]dynwatch.Resource{wanted}); err == nil || !strings.Contains(err.Error(), "at least 1m") {
		t.Errorf("error %v", err)
	}
}
