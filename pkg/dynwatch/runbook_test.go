package dynwatch_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/internal/display"
)

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
