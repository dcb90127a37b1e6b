package dynwatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
)

// TestDue: however time is cut into pieces, a resource with ResnapshotEvery is due once in each period, with all of
// its targets, at the same moment in each process.
func TestDue(t *testing.T) {
	const every = time.Hour
	wanted := things()
	wanted.ResnapshotEvery, wanted.Namespaces = every, []string{"a", "b"}
	begin := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	dues := func(step time.Duration) (all []string) {
		api := newFakeAPI(t, "a/one")
		r := live(t, api, wanted)
		runs := map[uint64]bool{}
		for at := begin; at.Before(begin.Add(24 * time.Hour)); at = at.Add(step) {
			for _, one := range r.manager.Due(at, at.Add(step)) {
				if len(one.Begin) != 2 || len(one.End) != 2 || runs[one.Run] {
					t.Errorf("run %d of %d targets", one.Run, len(one.Begin))
				}
				runs[one.Run] = true
				all = append(all, fmt.Sprint(one.Begin[0].Resource, " in hour ", at.Sub(begin)/time.Hour))
			}
		}
		if due := r.manager.Due(begin.Add(time.Hour), begin); len(due) > 0 {
			t.Errorf("%d are due when the clock is set back", len(due))
		}
		r.stop(false)
		return all
	}
	coarse, fine := dues(time.Minute), dues(time.Second)
	if len(coarse) != 24 || strings.Join(coarse, "\n") != strings.Join(fine, "\n") {
		t.Errorf("in a day they are due\n%q\nand\n%q", coarse, fine)
	}
}

// TestDueNever: a target is not due without a period, or without a first list.
func TestDueNever(t *testing.T) {
	api := newFakeAPI(t, "a/one")
	r := live(t, api, things())
	none := things()
	none.Resource, none.ResnapshotEvery = "nothings", time.Hour
	must(t, r.manager.Apply([]dynwatch.Resource{things(), none}))
	if due := r.manager.Due(time.Unix(0, 0), time.Now()); len(due) > 0 {
		t.Errorf("due: %v", due)
	}
}
