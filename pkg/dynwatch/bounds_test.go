package dynwatch_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

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
