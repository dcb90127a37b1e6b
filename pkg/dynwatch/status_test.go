package dynwatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/internal/display"
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

// TestLongReason has a conversion webhook fail with 3 MB: neither the status, nor the
// state event, nor the log line has more than its limit.
func TestLongReason(t *testing.T) {
	const most = 2 << 10 // with what surrounds the reason
	api := newFakeAPI(t)
	r, log := listen(t, api, things())
	r.caughtUp()
	api.keepRefusing(isWatch, func(w http.ResponseWriter) {
		fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n",
			statusJSON(400, "BadRequest", "conversion fails: "+strings.Repeat("x", 3<<20)+" cause"))
	})
	api.cut()
	var s dynwatch.TargetStatus
	r.eventually("failure is shown", func() bool {
		s = r.manager.Targets()[0]
		return s.State == dynwatch.Degraded && strings.Contains(s.Reason, "conversion")
	})
	if len(s.Reason) > most || !strings.Contains(s.Reason, "conversion fails") || !strings.HasSuffix(s.Reason, "cause") {
		t.Errorf("the reason has %d bytes: %.200q", len(s.Reason), s.Reason)
	}
	r.eventually("state event", func() bool {
		states := r.log.statesNow()
		return len(states) > 0 && strings.Contains(string(states[len(states)-1].Data), "conversion")
	})
	for _, e := range r.log.statesNow() {
		if len(e.Data) > most {
			t.Errorf("a state event has %d bytes", len(e.Data))
		}
	}
	r.manager.Close()
	for _, line := range log.with("") {
		if len(line) > most && !strings.Contains(line, "level=DEBUG ") {
			t.Errorf("a log line has %d bytes", len(line))
		}
	}
}

// TestWarningsLeadToRunbooks: a line about a gap, and one about a target that is not watched, has the link to
// what to do about it.
func TestWarningsLeadToRunbooks(t *testing.T) {
	api := fourObjects(t)
	r, out := listen(t, api, things())
	r.caughtUp()
	breakWith(api, api.forget)
	r.eventually("a gap", func() bool { return len(out.with("history lost; declaring a gap")) > 0 })
	for _, line := range out.with("history lost; declaring a gap") {
		if !strings.Contains(line, "reason=expired") || !strings.Contains(line, "runbook="+display.GapRunbook("expired")) {
			t.Errorf("logged %s", line)
		}
	}
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, statusJSON(403, "Forbidden", "no"), http.StatusForbidden)
			return true
		}
		api.generation++
	})
	r.eventually("the target is forbidden", func() bool { return len(out.with("state=forbidden")) > 0 })
	for _, line := range out.with("state=forbidden") {
		if !strings.Contains(line, "runbook="+display.AlertRunbook("InformdTargetNotWatched")) {
			t.Errorf("logged %s", line)
		}
	}
	r.manager.Close()
	for _, line := range out.with("state=live") {
		if strings.Contains(line, "runbook=") {
			t.Errorf("nothing is wrong, but it logged %s", line)
		}
	}
}
