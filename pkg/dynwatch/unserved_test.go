package dynwatch_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// refuseWatches has the fake answer 503 to all that is asked of things.
func (f *fakeAPI) refuseWatches() {
	f.keepRefusing(func(r *http.Request) bool {
		return !isDiscovery(r.URL.Path)
	}, refusal(503, "ServiceUnavailable", "not now"))
	f.cut()
}

// A resource that is gone ends with all that was known of it. What came when nobody
// looked is covered by a gap, up to a revision from after the end if one can be had.
func TestResourceGone(t *testing.T) {
	cases := map[string]struct {
		// objects are known, unseen come and go while no watch is open.
		objects, unseen bool
		// custom: its definition is removed as well.
		custom, restart bool
		want            []string
	}{
		"nothing is known and a watch was open": {custom: true},
		"the same over a restart":               {custom: true, restart: true},
		"nothing is known and nobody looked":    {custom: true, unseen: true, want: []string{"gap (100,501] unserved state"}},
		"nobody looked, and no custom resource": {unseen: true, want: []string{"gap (100,101] unserved state"}},
		"objects are known and nobody looked": {custom: true, objects: true, unseen: true, want: []string{
			"deleted a/x uid-1 501<101 replay", "gap (101,501] unserved state",
		}},
		"nobody looked, objects are known, and no custom resource": {objects: true, unseen: true, want: []string{
			"deleted a/x uid-1 102<101 replay", "gap (101,102] unserved state",
		}},
		"the same with a restart in it": {custom: true, objects: true, unseen: true, restart: true, want: []string{
			"deleted a/x uid-1 501<101 replay", "gap (101,501] unserved state",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.serveIn("v1")
			if c.objects {
				api.put("a", "x", "")
			}
			api.define()
			if !c.custom {
				api.remove(customDefinitions, "things.example.com")
				api.remove(apiServices, "v1.example.com")
			}
			r := start(t, api, things())
			r.eventually("definitions are watched", api.watched)
			r.caughtUp()
			n := len(r.log.all())
			if c.unseen {
				api.refuseWatches()
				r.eventually("a watch is refused", func() bool { return strings.Contains(r.manager.Targets()[0].Reason, "not now") })
				api.put("a", "x", "")
				api.put("a", "y", "")
				api.del("a", "y")
				api.del("a", "x")
			}
			if c.restart && c.unseen {
				r.stop(false)
			}
			api.do(func() { api.definitions.rev = 500 })
			if c.custom {
				n := api.discoveries()
				api.remove(customDefinitions, "things.example.com")
				if !c.unseen { // the watch is closed a second after that
					r.eventually("the removal is noticed", func() bool { return api.discoveries() > n })
				}
			}
			api.do(func() { api.refuse, api.served = nil, false; api.generation++ })
			if c.restart && c.unseen {
				r.begin(things())
			}
			r.state(dynwatch.Waiting)
			r.gone(n, len(c.want))
			if c.restart && !c.unseen {
				r.stop(false)
				r.begin(things())
				r.state(dynwatch.Waiting)
			}
			r.wantEvents(n, c.want...)
			// What comes back is a new one.
			api.do(func() { api.rev = 600 })
			api.put("a", "x", "")
			api.serveIn("v1")
			api.touch(apiServices, "v1.example.com")
			r.eventually("synced", func() bool {
				all := r.log.all()
				return all[len(all)-1].Op == event.Synced && len(all) == n+len(c.want)+2
			})
			same(t, "synced 601", r.since(n + len(c.want))[1])
		})
	}
}

// TestRemovedBehindAClosedWatch: no watch is open when a custom resource without objects is
// removed, because none was opened after the first list, or because something else had closed
// it. What came and went unseen is in a gap.
func TestRemovedBehindAClosedWatch(t *testing.T) {
	for name, opened := range map[string]bool{"after the first list": false, "after another end of the watch": true} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.serveIn("v1")
			api.define()
			deny := func() {
				api.keepRefusing(isWatch, refusal(404, "NotFound", "no such resource"))
				api.cut()
			}
			if !opened {
				deny()
			}
			r := start(t, api, things())
			r.eventually("definitions are watched", api.watched)
			if opened {
				r.caughtUp()
				deny()
			}
			r.state(dynwatch.Waiting)
			n := len(r.log.all())
			api.put("a", "x", "")
			api.del("a", "x")
			api.do(func() { api.definitions.rev = 500 })
			api.remove(customDefinitions, "things.example.com")
			api.do(func() { api.refuse, api.served = nil, false; api.generation++ })
			r.gone(n, 1)
			r.wantEvents(n, "gap (100,501] unserved state")
		})
	}
}

// A resource may come back in another storage, as one of an aggregated API server whose
// etcd was replaced: its revisions have nothing to do with those of before.
func TestResourceComesBackElsewhere(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn("v1")
	r := live(t, api, things())
	api.put("a", "x", "")
	api.del("a", "x")
	r.caughtUp()
	n := len(r.log.all())
	api.do(func() { api.served = false; api.generation++ })
	r.state(dynwatch.Waiting)
	r.gone(n, 0)
	api.rollBack(50)
	api.put("a", "x", "")
	api.serveIn("v1")
	r.eventually("synced", func() bool { return r.manager.Targets()[0].Synced })
	r.wantEvents(n, "added a/x uid-2 51", "synced 51")
}
