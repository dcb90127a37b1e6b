//go:build long

package dynwatch_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

//nolint:gochecknoglobals // a test flag
var seed = flag.Uint64("seed", 0, "seed of the random stream test; 0 takes one from the clock")

// newSeed is the seed of a test, and tells how it is repeated.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", s)
	return s
}

// TestRandomFaults runs random writes against random faults and checks the whole
// stream afterwards.
func TestRandomFaults(t *testing.T) {
	s := newSeed(t)
	for round := range uint64(4) {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			randomFaults(t, rand.New(rand.NewPCG(s, round)))
		})
	}
}

func randomFaults(t *testing.T, rnd *rand.Rand) {
	api := newFakeAPI(t)
	for i := range 20 {
		api.put("a", fmt.Sprint("n", i), "")
	}
	limits := []func(*dynwatch.Limits){
		func(*dynwatch.Limits) {},
		func(l *dynwatch.Limits) { l.Bodies = 500 },
		func(l *dynwatch.Limits) { l.Requests = 1 + rnd.IntN(100) },
	}
	r := newRig(t, api)
	r.limit, r.hasty = limits[rnd.IntN(len(limits))], true
	r.begin(things())
	r.eventually("synced", func() bool { return r.manager.Targets()[0].Synced })
	compact := api.compact
	if rnd.IntN(2) == 0 {
		compact = func() {} // so that all that is walked can be read
	}
	faults := []func(){
		api.cut, api.forget, compact, api.freeze,
		func() { api.expire("a", "n1", "n2", "n3", "n4") },
		func() { api.do(func() { api.breakAfter = 1 + rnd.IntN(3) }); api.expire("a", "n5", "n6", "n7", "n8") },
		func() { api.forget(); compact() },
		func() { api.do(func() { api.mute = !api.mute }) },
		func() { api.do(func() { api.nameless = !api.nameless }) },
		func() { refuseSome(api, rnd.IntN(4)) },
		func() { r.stop(rnd.IntN(2) == 0); r.begin(things()) },
		func() { r.stop(rnd.IntN(2) == 0); r.begin(things()) },
		func() { r.stop(true); api.forget(); compact(); r.begin(things()) },
		r.caughtUpIfNotMute,
	}
	for range 600 {
		name := fmt.Sprint("n", rnd.IntN(30))
		if rnd.IntN(3) == 0 {
			api.del("a", name)
		} else {
			api.put("a", name, "")
		}
		if rnd.IntN(15) == 0 {
			faults[rnd.IntN(len(faults))]()
		}
	}
	api.do(func() { api.mute, api.refuse = false, nil }) // the audit does not ask twice
	api.put("a", "last", "")
	r.caughtUp()
	r.wantAudit(0)
	checkStream(t, r.log.all(), api)
	t.Log(gapCounts(r.log.all()))
	if t.Failed() {
		t.Logf("events:\n%s", strings.Join(lines(r.log.all()), "\n"))
	}
}

// gapCounts counts gaps by how much of them came out.
func gapCounts(events []event.Event) map[event.Recovered]int {
	counts := make(map[event.Recovered]int)
	for i := range events {
		if events[i].Op == event.Gap {
			counts[events[i].Gap.Recovered]++
		}
	}
	return counts
}

// TestRandomFaultsUnderASelector is the same for objects that come into the
// selection and leave it. Of them only the end is told for certain, and that no
// chain is broken on the way.
func TestRandomFaultsUnderASelector(t *testing.T) {
	s := newSeed(t)
	for round := range uint64(4) {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			randomSelection(t, rand.New(rand.NewPCG(s, round)))
		})
	}
}

func randomSelection(t *testing.T, rnd *rand.Rand) {
	api := newFakeAPI(t)
	limits := []func(*dynwatch.Limits){func(*dynwatch.Limits) {}, func(l *dynwatch.Limits) { l.Requests = 1 + rnd.IntN(100) }}
	wanted := selectingOn()
	r := newRig(t, api)
	r.limit, r.hasty = limits[rnd.IntN(len(limits))], true
	r.begin(wanted)
	r.caughtUp()
	faults := []func(){
		api.cut, api.forget, api.forget, r.caughtUpIfNotMute,
		func() { api.do(func() { api.mute = !api.mute }) },
		func() { api.do(func() { api.nameless = !api.nameless }) },
		func() { refuseSome(api, rnd.IntN(4)) },
		func() { r.stop(rnd.IntN(2) == 0); r.begin(wanted) },
	}
	for range 400 {
		name := fmt.Sprint("n", rnd.IntN(20))
		if rnd.IntN(4) == 0 {
			api.del("a", name)
		} else {
			api.put("a", name, []string{"yes", "no"}[rnd.IntN(2)])
		}
		if rnd.IntN(15) == 0 {
			faults[rnd.IntN(len(faults))]()
		}
	}
	api.do(func() { api.mute, api.refuse = false, nil }) // the audit does not ask twice
	api.put("a", "last", "yes")
	r.caughtUp()
	r.wantAudit(0)
	checkSelection(t, r.log.all(), api)
	if t.Failed() {
		t.Logf("events:\n%s", strings.Join(lines(r.log.all()), "\n"))
	}
}

// checkSelection holds a stream of the objects with the label on=yes against the
// final state.
func checkSelection(t *testing.T, events []event.Event, api *fakeAPI) {
	t.Helper()
	ids, last, state := make(map[string]bool), make(map[string]event.Event), make(map[string]event.Event)
	for _, e := range events {
		if ids[e.ID] {
			t.Errorf("id %s repeated", e.ID)
		}
		if ids[e.ID] = true; e.Op.Control() {
			continue
		}
		prev, known := last[e.UID]
		if known && prev.Op == event.Deleted || e.ResourceVersion <= prev.ResourceVersion {
			t.Errorf("%s %s after %s of revision %d", e.Op, e.ID, prev.Op, prev.ResourceVersion)
		}
		if known && (e.PrevResourceVersion != prev.ResourceVersion || e.Ordinal != prev.Ordinal+1) && prev.Op != event.Left {
			t.Errorf("%s: chain broken: prev %d ordinal %d after revision %d ordinal %d", e.ID, e.PrevResourceVersion, e.Ordinal, prev.ResourceVersion, prev.Ordinal)
		}
		last[e.UID] = e
		if old, ok := state[e.Key()]; ok && old.UID != e.UID {
			t.Errorf("%s %s while uid %s holds the name", e.Op, e.ID, old.UID)
		}
		if state[e.Key()] = e; e.Op.Ends() {
			delete(state, e.Key())
		}
	}
	matching := 0
	for _, c := range api.state() {
		if c.label != "yes" {
			continue
		}
		matching++
		if e := last[c.uid]; e.Op.Ends() || e.ResourceVersion != c.rev {
			t.Errorf("final state of %s: %s at %d, want %d", c.key(), e.Op, e.ResourceVersion, c.rev)
		}
	}
	if matching != len(state) {
		t.Errorf("%d objects match, %d are in the stream", matching, len(state))
	}
}

// refuseSome answers the next n requests with 503.
func refuseSome(api *fakeAPI, n int) {
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
			api.mu.Lock()
			defer api.mu.Unlock()
			n--
			if n >= 0 {
				writeStatus(w, 503, "ServiceUnavailable", "later")
			}
			return n >= 0
		}
	})
}

func (r *rig) caughtUpIfNotMute() {
	r.api.mu.Lock()
	mute := r.api.mute
	r.api.mu.Unlock()
	if !mute {
		r.caughtUp()
	}
}
