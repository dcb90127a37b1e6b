package dynwatch_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// TestBlockedList: a list that does not answer holds up its own target alone: not the events of others, and no
// reload, which may also end the target.
func TestBlockedList(t *testing.T) {
	api := newFakeAPI(t, "a/x 1", "b/x 1")
	wanted := inNamespaces("a", "b")
	r, n := liveFrom(t, api, wanted)
	released := make(chan struct{})
	defer close(released)
	api.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if ofThings(r) && verbOf(r) == "list" && strings.Contains(r.URL.Path, "/namespaces/a/") {
			select {
			case <-released:
			case <-r.Context().Done():
			}
			return true
		}
		return false
	})
	go func() { _, _ = r.manager.Resnapshot(t.Context(), "things") }()
	arrives := func(what string, unchanged int) {
		t.Helper()
		api.put("b", "x", "1")
		r.within(10*time.Second, what, func() bool {
			for _, e := range r.log.all()[n:] {
				if e.Op == event.Modified && e.ResourceVersion == api.revisionNow() {
					return len(e.Unchanged) == unchanged
				}
			}
			return false
		})
	}
	r.eventually("both begin", func() bool { return count(r.log.all()[n:], event.Begin) == 2 })
	arrives("a change of another target", 0)
	wanted.SinkFilters = []string{"metadata.labels"}
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	arrives("a change after a reload", 1)
	wanted.Namespaces = []string{"b"}
	must(t, r.manager.Apply([]dynwatch.Resource{wanted}))
	arrives("a change after the end of the target", 1)
}
