package deliver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// TestGateOps: a change gate is about modified events alone, and stops one only if
// nothing that it asks about has changed for sure.
func TestGateOps(t *testing.T) {
	gate := deliver.Match{OnlyWhenChanged: []uint64{1, 2}}
	for name, test := range map[string]struct {
		only  []deliver.Match
		gates *event.Gates
		want  bool
	}{
		"nothing known":      {[]deliver.Match{gate}, nil, true},
		"one changed":        {[]deliver.Match{gate}, &event.Gates{Unchanged: []uint64{1, 3}}, true},
		"none changed":       {[]deliver.Match{gate}, &event.Gates{Unchanged: []uint64{3, 2, 1}}, false},
		"another match":      {[]deliver.Match{gate, {Resource: "deployments"}}, &event.Gates{Unchanged: []uint64{1, 2}}, true},
		"no gate":            {[]deliver.Match{{}}, &event.Gates{Unchanged: []uint64{1, 2}}, true},
		"and a condition":    {[]deliver.Match{{OnlyWhenChanged: []uint64{1}, When: always(false)}}, nil, false},
		"or else, condition": {[]deliver.Match{{OnlyWhenChanged: []uint64{1}, When: always(true)}}, &event.Gates{Unchanged: []uint64{1}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := route(t, true, test.only...)
			for _, op := range event.Ops() {
				e := of(op, "apps", "deployments", "shop")
				e.Gates = test.gates
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
type detaching struct {
	journal.Journal
	upTo uint64
}

func (d detaching) Open(name string, start journal.Start) (journal.Cursor, error) {
	c, err := d.Journal.Open(name, start)
	return detachingCursor{c, d.upTo}, err
}

type detachingCursor struct {
	journal.Cursor
	upTo uint64
}

func (c detachingCursor) Read(ctx context.Context, limit int) ([]journal.Entry, error) {
	entries, err := c.Cursor.Read(ctx, limit)
	for i := range entries {
		entries[i].Detached = entries[i].Seq <= c.upTo
	}
	return entries, err
}

// TestGateAfterTrimmedHistory: what is detached passes a gate, in one lane and in
// several; what is stopped is counted and
// committed.
func TestGateAfterTrimmedHistory(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s := detaching{journal.NewMemory(1 << 20), 40}, &fakeSink{}
				g := start(t, j, s, func(o *deliver.Options) {
					o.Setup.Lanes = lanes
					o.Setup.Route = route(t, true, deliver.Match{OnlyWhenChanged: []uint64{5}})
				})
				list := events(0, 100)
				var want []string
				for i := range list {
					if list[i].Gates = (&event.Gates{Unchanged: []uint64{5}}); i%10 == 0 {
						list[i].Gates.Unchanged = nil
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
		})
	}
}
