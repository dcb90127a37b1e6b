package dynwatch_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// lineSizes is a log that keeps the size of its longest line.
type lineSizes struct {
	mu      sync.Mutex
	longest int
}

func (l *lineSizes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, len(p))
	return len(p), nil
}

// TestLongReason has a conversion webhook fail with 3 MB: neither the status, nor the
// state event, nor the log line has more than its limit.
func TestLongReason(t *testing.T) {
	const most = 2 << 10 // with what surrounds the reason
	api := newFakeAPI(t)
	api.serveIn("v1")
	log := &lineSizes{}
	r := newRig(t, api)
	r.logger = slog.New(slog.NewTextHandler(log, nil))
	r.begin(things())
	r.caughtUp()
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			if isDiscovery(r.URL.Path) || r.URL.Query().Get("watch") == "" {
				return false
			}
			fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n",
				statusJSON(400, "BadRequest", "conversion fails: "+strings.Repeat("x", 3<<20)+" cause"))
			return true
		}
		api.generation++
	})
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
	if log.longest > most {
		t.Errorf("a log line has %d bytes", log.longest)
	}
}
