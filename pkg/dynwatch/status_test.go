package dynwatch_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestStatusCountsEvents: what a target appends shows in its counters and its rate.
func TestStatusCountsEvents(t *testing.T) {
	api := newFakeAPI(t, "a/x")
	r := live(t, api, things())
	api.put("a", "x", "")
	api.put("a", "y", "")
	r.caughtUp()
	var s dynwatch.TargetStatus
	r.eventually("six events counted", func() bool {
		s = r.manager.Targets()[0]
		return s.Events[event.Begin] == 1 && s.Events[event.Snapshot] == 1 && s.Events[event.Synced] == 1 && s.Events[event.Modified] == 1 && s.Events[event.Added] == 1 &&
			s.Events[event.State] == 1 // that it is live
	})
	// The whole life of the target is seconds: nothing has faded much, and a second
	// at least is what the six are divided by.
	if s.EventsPerSecond <= 0 || s.EventsPerSecond > 6.1 {
		t.Errorf("%v events a second after 6 events", s.EventsPerSecond)
	}
}
