//go:build long

package dynwatch_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
)

// TestUnprovenStreamLater: the position of a quiet target moves without a list past events
// that the API server has left out. The list that finds them comes later, after a restart or
// after a frame of another watch. All of the events are emitted then, or in a declared gap.
func TestUnprovenStreamLater(t *testing.T) {
	for name, meanwhile := range map[string]func(r *rig){
		"restart": func(r *rig) {
			r.stop(false)
			r.begin(things())
		},
		"frame of another watch": func(r *rig) {
			watches := r.api.requestsWith("watch=true")
			r.api.cut()
			r.eventually("another watch", func() bool { return r.api.requestsWith("watch=true") > watches })
			r.api.do(func() { r.api.mute = false })
			r.api.put("a", "later", "")
			r.caughtUp()
			r.api.do(func() { r.api.mute = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.do(func() {
				for i := range 3_500 { // so many that lists are rare
					api.rev++
					api.uids++
					api.history = append(api.history, change{rev: api.rev, ns: "a", name: fmt.Sprintf("thing-%04d", i), uid: fmt.Sprintf("uid-%d", api.uids), created: true})
				}
			})
			r := liveHasty(t, api, things())
			api.do(func() {
				api.mute = true
				api.rev++ // of another resource
				api.left = func(frame string) bool { return strings.Contains(frame, `"hidden"`) }
			})
			at := func(rv uint64) func() bool {
				return func() bool { return r.manager.Targets()[0].ResourceVersion >= rv }
			}
			r.eventually("a list moves the position", at(3_601))
			api.put("a", "hidden", "")
			r.eventually("the position moves again", at(api.put("a", "hidden", "")))
			meanwhile(r)
			r.within(time.Minute, "the event that was left out", func() bool {
				for _, e := range r.log.all() {
					if e.Name == "hidden" || e.Op == event.Gap {
						return true
					}
				}
				return false
			})
			r.consistent()
			checkStream(t, r.log.all(), api)
		})
	}
}
