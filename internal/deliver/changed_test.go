package deliver_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// TestChangedOps: a change filter is about modified events alone, and stops one only if
// nothing that it names has changed for sure.
func TestChangedOps(t *testing.T) {
	filter := deliver.Match{Changed: []uint64{1, 2}}
	for name, test := range map[string]struct {
		only      []deliver.Match
		unchanged []uint64
		want      bool
	}{
		"nothing known":      {[]deliver.Match{filter}, nil, true},
		"one changed":        {[]deliver.Match{filter}, []uint64{1, 3}, true},
		"none changed":       {[]deliver.Match{filter}, []uint64{3, 2, 1}, false},
		"another match":      {[]deliver.Match{filter, {Resource: "deployments"}}, []uint64{1, 2}, true},
		"no filter":          {[]deliver.Match{{}}, []uint64{1, 2}, true},
		"and a condition":    {[]deliver.Match{{Changed: []uint64{1}, When: always(false)}}, nil, false},
		"or else, condition": {[]deliver.Match{{Changed: []uint64{1}, When: always(true)}}, []uint64{1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := route(t, true, test.only...)
			for _, op := range event.Ops() {
				e := of(op, "apps", "deployments", "shop")
				e.Unchanged = test.unchanged
				want := test.want
				switch {
				case op == event.State:
					continue
				case op != event.Modified:
					want = test.only[0].When == nil || op.Ends() || op.Control() || strings.HasPrefix(name, "or else")
				}
				if got := r.Admits(&e); got != want {
					t.Errorf("%s is admitted: %t, want %t", op, got, want)
				}
			}
		})
	}
}

// detaching is a journal whose cursors detach what is up to a sequence.
func detaching(j opener, upTo uint64) altered {
	return altered{opener: j, read: func(entries []journal.Entry) []journal.Entry {
		for i := range entries {
			entries[i].Detached = entries[i].Seq <= upTo
		}
		return entries
	}}
}

// TestChangedAfterTrimmedHistory: what is detached passes a change filter, in one lane and in
// several; what is stopped is counted and
// committed.
func TestChangedAfterTrimmedHistory(t *testing.T) {
	eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
		j, s := detaching(newJournal(t), 40), &fakeSink{}
		g := start(t, j, s, func(o *deliver.Options) {
			lanes(o)
			o.Setup.Route = route(t, true, deliver.Match{Changed: []uint64{5}})
		})
		list := events(0, 100)
		var want []string
		for i := range list {
			if list[i].Unchanged = []uint64{5}; i%10 == 0 {
				list[i].Unchanged = nil
			}
			if i < 40 || i%10 == 0 {
				want = append(want, list[i].ID)
			}
		}
		mustAppend(t, j, list)
		synctest.Wait()
		checkSet(t, s.ids(), want)
		if got := series(t, g.registry)["informd_sink_events_total result=filtered sink=out"]; got != 54 {
			t.Errorf("%v events are filtered, want 54: %v", got, series(t, g.registry))
		}
		if lag := g.Status().LagEvents; lag != 0 {
			t.Errorf("%d events are not committed", lag)
		}
		if left := g.drain(t, time.Second); left != 0 || !slices.Contains(s.ids(), "90") {
			t.Errorf("%d events are left", left)
		}
	})
}
