//go:build long

package dynwatch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/event"
)

// TestRandomNamespaces lets the labels of Namespaces flip, and Namespaces come and
// go, while the things in them change, with and without faults, and holds the stream
// to what a consumer may rely on.
func TestRandomNamespaces(t *testing.T) { rounds(t, 8, randomNamespaces) }

func randomNamespaces(t *testing.T, rnd *rand.Rand, round uint64) {
	faulty, selecting := round%2 == 1, round%4 >= 2
	api := newFakeAPI(t)
	wanted := labelled()
	if selecting {
		wanted.LabelSelector = "on=yes"
	}
	label := func() string { return []string{"yes", "no"}[rnd.IntN(2)] }
	names := []string{"team-a", "team-b", "team-c", "team-x", "shop"}
	for _, ns := range names {
		api.put("", ns, label())
	}
	r := live(t, api, wanted)
	faults := []func(){
		api.cut, api.forget, r.caughtUpIfNotMute,
		func() { api.do(func() { api.mute = !api.mute }) },
		func() { refuseSome(api, rnd.IntN(4)) },
		func() { api.refuseNamespaces([]int{403, 410, 503}[rnd.IntN(3)], rnd.Int64N(8)) },
		func() { r.stop(rnd.IntN(2) == 0); r.begin(wanted) },
		func() { r.stop(true); r.begin(wanted) },
	}
	for range 600 {
		ns, name := names[rnd.IntN(len(names))], fmt.Sprint("n", rnd.IntN(6))
		_, exists := api.state()["/"+ns]
		switch n := rnd.IntN(24); {
		case !exists || n < 3:
			api.put("", ns, label())
		case n == 3:
			for key, c := range api.state() {
				if strings.HasPrefix(key, ns+"/") {
					api.del(ns, c.name)
				}
			}
			api.del("", ns)
		case n < 9:
			api.del(ns, name)
		default:
			api.put(ns, name, label())
		}
		if faulty && rnd.IntN(20) == 0 {
			faults[rnd.IntN(len(faults))]()
		} else if rnd.IntN(8) == 0 {
			r.caughtUpIfNotMute()
		}
	}
	api.do(func() { api.mute, api.refuse = false, nil })
	r.caughtUp()
	r.eventually("what is in the stream is what matches", func() bool { return len(wrong(r.log.all(), api, selecting)) == 0 })
	checkLegal(t, r.log.all())
	if faults := lost(r.log.all(), api, selecting); len(faults) > 0 {
		t.Errorf("neither announced nor in a gap:\n%s", strings.Join(faults, "\n"))
	}
	r.wantAudit(0)
	r.logsEvents()
}

// lost says which states are neither in a stream nor in a gap, of the things in
// namespaces that match at the end, since they last came to.
func lost(events []event.Event, api *fakeAPI, selecting bool) (faults []string) {
	told, synced := make(map[uint64]bool), uint64(0)
	var gaps []event.GapInfo
	for _, e := range events {
		switch {
		case e.Op == event.Gap:
			gaps = append(gaps, *e.Gap)
		case e.Op == event.Synced && synced == 0:
			synced = e.ResourceVersion
		case !e.Op.Ends():
			told[e.ResourceVersion] = true
		}
	}
	matches := make(map[string]bool)
	missing := make(map[string][]change)
	for _, c := range api.changes() {
		switch {
		case c.isNamespace():
			if now := !c.deleted && c.label == "yes" && strings.HasPrefix(c.name, "team-") && c.name != "team-x"; now != matches[c.name] {
				matches[c.name], missing[c.name] = now, nil
			}
		case matches[c.ns] && !c.deleted && (!selecting || c.label == "yes") && c.rev > synced && !told[c.rev] &&
			!slices.ContainsFunc(gaps, func(g event.GapInfo) bool { return g.From < c.rev && c.rev <= g.To }):
			missing[c.ns] = append(missing[c.ns], c)
		}
	}
	for name, all := range missing {
		for _, c := range all {
			faults = append(faults, fmt.Sprintf("%s %s at %d", name, c.name, c.rev))
		}
	}
	return faults
}
