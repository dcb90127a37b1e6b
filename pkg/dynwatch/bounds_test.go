package dynwatch_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// boundsOf checks that the events of a target have one begin and one synced event of the same
// run, and returns the objects in between that have this run.
func boundsOf(t *testing.T, events []event.Event, target string) (named []string) {
	t.Helper()
	var runs []uint64
	for _, e := range events {
		switch {
		case e.Target != target:
		case e.Op.Bounds():
			runs = append(runs, e.Run)
		case !e.Op.Control() && len(runs) == 1 && e.Run == runs[0]:
			named = append(named, e.Namespace+"/"+e.Name)
		}
	}
	if len(runs) != 2 || runs[0] != runs[1] || runs[0] == 0 {
		t.Errorf("%s has begin and synced events of the runs %d, want two of one run", target, runs)
	}
	slices.Sort(named)
	return named
}

// TestBoundsAfterAnEditOfNamespaces: a target whose objects another one has announced gets its
// begin and synced events, and all objects between them, also if the process ends before.
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
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", name, killed), func(t *testing.T) {
				api := newFakeAPI(t)
				for _, at := range []string{"a/x", "a/y", "b/z"} {
					ns, name, _ := strings.Cut(at, "/")
					api.put(ns, name, "")
				}
				r := start(t, api, c.before)
				r.caughtUp()
				if !killed {
					if err := r.manager.Apply([]dynwatch.Resource{c.after}); err != nil {
						t.Fatal(err)
					}
				} else {
					r.stop(false)
					r.killedBeforeTheWatch(c.after, c.target)
					r.begin(c.after)
				}
				r.eventually("synced", func() bool {
					return slices.ContainsFunc(r.log.all(), func(e event.Event) bool { return e.Op == event.Synced && e.Target == c.target })
				})
				if got := boundsOf(t, r.log.all(), c.target); !slices.Equal(got, c.objects) {
					t.Errorf("objects of the snapshot %q, want %q", got, c.objects)
				}
				r.caughtUp()
				r.stop(false)
				n := len(r.log.all())
				r.begin(c.after)
				r.caughtUp()
				r.quietFor(200*time.Millisecond, n)
			})
		}
	}
}

// killedBeforeTheWatch runs a process that reconciles and cannot open a watch.
func (r *rig) killedBeforeTheWatch(wanted dynwatch.Resource, target string) {
	r.t.Helper()
	r.api.do(func() {
		r.api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if verbOf(r) != "watch" {
				return false
			}
			writeStatus(w, http.StatusServiceUnavailable, "ServiceUnavailable", "later")
			return true
		}
	})
	r.begin(wanted)
	r.eventually("the mark", func() bool { return bytes.Contains(r.log.marksNow()[target], []byte("boundsMissing")) })
	r.stop(true)
	r.api.do(func() { r.api.refuse = nil })
}

// TestBoundsOfAResourceThatReturns: the first list of a resource that was removed and has returned
// has the bounds that were missing before.
func TestBoundsOfAResourceThatReturns(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn("v1")
	api.put("a", "x", "")
	r := start(t, api, things())
	r.caughtUp()
	r.stop(false)
	named := things()
	named.Namespaces = []string{"a"}
	r.killedBeforeTheWatch(named, "example.com/things@a")
	api.do(func() { api.served = false; api.generation++ })
	r.begin(named)
	has := func(op event.Op) func() bool {
		return func() bool {
			return slices.ContainsFunc(r.log.all(), func(e event.Event) bool { return e.Op == op && e.Target == "example.com/things@a" })
		}
	}
	r.eventually("gone", has(event.Deleted))
	api.serveIn("v1")
	r.eventually("back", has(event.Synced))
	r.caughtUp()
	r.quietFor(200*time.Millisecond, len(r.log.all()))
	again := slices.DeleteFunc(r.log.all(), func(e event.Event) bool { return e.Target != "example.com/things@a" || !e.Op.Bounds() })
	if len(again) != 1 || again[0].Replay {
		t.Errorf("synced and repeated begin events %v, want the synced event of the first list", again)
	}
}
