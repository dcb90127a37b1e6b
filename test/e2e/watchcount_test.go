package e2e_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// watchOverlap is how long a resource may have two watches: one that informd has ended
// is open a moment longer, as the other side sees it.
const watchOverlap = 10 * time.Second

// watchCount counts the open watches by target, as they pass a proxy.
type watchCount struct {
	mu   sync.Mutex
	open map[string]int
	// twice is since when there are two, longest for how long there were.
	twice   map[string]time.Time
	longest map[string]time.Duration
}

func newWatchCount() *watchCount {
	return &watchCount{open: make(map[string]int), twice: make(map[string]time.Time), longest: make(map[string]time.Duration)}
}

// begin notes that a watch begins; what it returns, that it ends.
func (w *watchCount) begin(r *http.Request) (end func()) {
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
	return groupOrCore(group) + "/" + resourceOf(r)
}

// check: each target that is live has one watch, nothing else has any, and never were
// there two.
func (w *watchCount) check(t *testing.T, states map[string]string) {
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

// longRunning is the API server's own count. Of custom resources it names the group,
// and no resource.
var longRunning = regexp.MustCompile(`^apiserver_longrunning_requests\{.*group="([^"]*)".*verb="WATCH".*\} (\S+)`)

// watchesOf is how many watches the API server has open in some groups.
func watchesOf(t *testing.T, config *rest.Config, groups []string) map[string]int {
	t.Helper()
	text, err := discovery.NewDiscoveryClientForConfigOrDie(fast(rest.CopyConfig(config))).RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := make(map[string]int)
	for _, group := range groups {
		open[group] = 0
	}
	for line := range strings.Lines(string(text)) {
		m := longRunning.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if _, wanted := open[m[1]]; wanted {
			var n float64
			if _, err := fmt.Sscan(m[2], &n); err != nil {
				t.Fatal(err)
			}
			open[m[1]] += int(n)
		}
	}
	return open
}
