package dynwatch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

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
