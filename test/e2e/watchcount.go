package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// watchOverlap is how long a resource may have two watches: one that informd has ended
// is open a moment longer, as the other side sees it.
const watchOverlap = 10 * time.Second

// WatchCount counts the open watches by target, as they pass a proxy.
type WatchCount struct {
	mu   sync.Mutex
	open map[string]int
	// twice is since when there are two, longest for how long there were.
	twice   map[string]time.Time
	longest map[string]time.Duration
}

func newWatchCount() *WatchCount {
	return &WatchCount{open: make(map[string]int), twice: make(map[string]time.Time), longest: make(map[string]time.Duration)}
}

// begin notes that a watch begins; what it returns, that it ends.
func (w *WatchCount) begin(r *http.Request) (end func()) {
	target := collectionOf(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[target]++; w.open[target] == 2 {
		w.twice[target] = time.Now()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.open[target]--; w.open[target] == 1 {
			w.longest[target] = max(w.longest[target], time.Since(w.twice[target]))
		}
	}
}

// collectionOf is the target that a request's path is of.
func collectionOf(r *http.Request) string {
	group := ""
	if parts := strings.Split(r.URL.Path, "/"); len(parts) > 2 && parts[1] == "apis" {
		group = parts[2]
	}
	return GroupOrCore(group) + "/" + resourceOf(r)
}

// Check holds the watches to it: each target that is live has one watch, nothing else has any, and never were
// there two.
func (w *WatchCount) Check(t *testing.T, states map[string]string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for target, n := range w.open {
		if n > 1 || n == 1 && states[target] != "live" {
			t.Errorf("%d watches of %s, which is %q", n, target, states[target])
		}
	}
	longest := time.Duration(0)
	for target, took := range w.longest {
		if longest = max(longest, took); took > watchOverlap {
			t.Errorf("two watches of %s for %v", target, took)
		}
	}
	for target, state := range states {
		if state == "live" && w.open[target] == 0 {
			t.Errorf("no watch of %s", target)
		}
	}
	t.Logf("%d resources never had two watches for longer than %v", len(w.open), longest.Round(time.Millisecond))
}
