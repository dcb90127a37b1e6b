//go:build long

package dynwatch_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
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

// rounds runs a random test so often.
func rounds(t *testing.T, count uint64, run func(t *testing.T, rnd *rand.Rand, round uint64)) {
	t.Helper()
	s := newSeed(t)
	for round := range count {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { run(t, rand.New(rand.NewPCG(s, round)), round) })
	}
}

// endsWell has all faults end, and holds what follows to an audit without divergences.
func (r *rig) endsWell() {
	r.t.Helper()
	r.api.do(func() { r.api.mute, r.api.refuse = false, nil }) // the audit does not ask twice
	r.api.put("a", "last", "yes")
	r.caughtUp()
	r.wantAudit(0)
}

// logsEvents shows the events of a test that has failed.
func (r *rig) logsEvents() {
	if r.t.Failed() {
		r.t.Logf("events:\n%s", strings.Join(lines(r.log.all()), "\n"))
	}
}

// TestRandomFaults runs random writes against random faults and checks the whole
// stream afterwards.
func TestRandomFaults(t *testing.T) { rounds(t, 4, randomFaults) }

func randomFaults(t *testing.T, rnd *rand.Rand, _ uint64) {
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
	r.endsWell()
	checkStream(t, r.log.all(), api)
	r.logsEvents()
}

// TestRandomFaultsUnderASelector is the same for objects that come into the
// selection and leave it. Of them only the end is certain, and that no
// chain is broken on the way.
func TestRandomFaultsUnderASelector(t *testing.T) { rounds(t, 4, randomSelection) }

func randomSelection(t *testing.T, rnd *rand.Rand, _ uint64) {
	api := newFakeAPI(t)
	limits := []func(*dynwatch.Limits){func(*dynwatch.Limits) {}, func(l *dynwatch.Limits) { l.Requests = 1 + rnd.IntN(100) }}
	wanted := selectingOn()
	r := newRig(t, api)
	r.limit, r.hasty = limits[rnd.IntN(len(limits))], true
	r.goLive(wanted)
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
	r.endsWell()
	checkSelection(t, r.log.all(), api)
	r.logsEvents()
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
	want := make(map[string]string)
	for key, c := range api.state() {
		if c.label == "yes" {
			want[key] = fmt.Sprintf("%s %d", c.uid, c.rev)
		}
	}
	same(t, want, view(events, false))
}

// refuseSome answers the next n requests with 503.
func refuseSome(api *fakeAPI, n int) {
	api.refuseTimes(int64(n), anything, refusal(503, "ServiceUnavailable", "later"))
}

func (r *rig) caughtUpIfNotMute() {
	r.api.mu.Lock()
	mute := r.api.mute
	r.api.mu.Unlock()
	if !mute {
		r.caughtUp()
	}
}
