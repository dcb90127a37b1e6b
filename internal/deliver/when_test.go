package deliver_test

import (
	"errors"
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

// condition is one made of a function. It keeps how often it was asked about the event
// that decoded is of.
type condition func(e *event.Event, before int) (bool, error)

func (c condition) Holds(e *event.Event, decoded *any) (bool, error) {
	before, _ := (*decoded).(int)
	*decoded = before + 1
	return c(e, before)
}

func always(holds bool) condition {
	return func(*event.Event, int) (bool, error) { return holds, nil }
}

func failing(*event.Event, int) (bool, error) { return false, errors.New("1:8: no such key") }

// TestWhenMatches: any match delivers, each is asked only about what its other keys
// let through, and what one has decoded the next one finds.
func TestWhenMatches(t *testing.T) {
	var asked []string
	ask := func(name string, holds bool) condition {
		return func(_ *event.Event, before int) (bool, error) {
			asked = append(asked, fmt.Sprint(name, before))
			return holds, nil
		}
	}
	r := route(t, true,
		deliver.Match{Resource: "nodes", When: ask("nodes", true)},
		deliver.Match{Resource: "pods", When: ask("first", false)},
		deliver.Match{Resource: "pods", When: ask("second", true)},
		deliver.Match{Resource: "pods", When: ask("third", true)})
	for range 2 {
		if e := of(event.Modified, "", "pods", "shop"); !r.Admits(&e) {
			t.Error("not admitted")
		}
	}
	if want := []string{"first0", "second1", "first0", "second1"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestWhenFails: a condition that fails stops nothing. Each event counts, also if two conditions fail for it, the log
// has one line a minute, and neither says anything of the object.
func TestWhenFails(t *testing.T) {
	for _, drop := range []bool{false, true} {
		t.Run(fmt.Sprintf("drop %t", drop), func(t *testing.T) {
			eachLanes(t, func(t *testing.T, lanes func(*deliver.Options)) {
				j, s := newJournal(t), &fakeSink{}
				g := start(t, j, s, func(o *deliver.Options) {
					lanes(o)
					odd := condition(func(e *event.Event, _ int) (bool, error) {
						if e.ResourceVersion%2 == 0 {
							return failing(e, 0)
						}
						return true, nil
					})
					o.Route = route(t, true, deliver.Match{Resource: "nodes"},
						deliver.Match{DropFailed: drop, When: odd}, deliver.Match{DropFailed: true, When: odd})
				})
				mustAppend(t, j, events(0, 100))
				synctest.Wait()
				want := numbers(0, 100)
				if drop {
					want = slices.DeleteFunc(want, func(id string) bool { return strings.ContainsAny(id[len(id)-1:], "02468") })
				}
				checkSet(t, s.ids(), want)
				if got := series(t, g.registry)["informd_sink_condition_errors_total sink=out"]; got != 50 {
					t.Errorf("%v errors counted, want 50", got)
				}
				const line = `level=WARN msg="condition could not be evaluated" expression=match[1].condition`
				if n := g.logs.count(line); n != 1 {
					t.Errorf("%d lines in the log, want 1", n)
				}
				<-time.After(2 * time.Minute)
				mustAppend(t, j, events(100, 1))
				synctest.Wait()
				if n := g.logs.count(line + fmt.Sprintf(" id=100 delivered=%t more_since_last=49", !drop)); n != 1 {
					t.Errorf("the second line is not there: %s", g.logs.b.String())
				}
				g.drain(t, time.Second)
			})
		})
	}
}

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
