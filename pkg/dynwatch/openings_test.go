package dynwatch_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// live counts the targets that are live.
func (r *rig) live() (n int) {
	for _, s := range r.manager.Targets() {
		if s.State == dynwatch.Live {
			n++
		}
	}
	return n
}

// A 429 with a Status concerns one resource, however long its server wants to be left
// alone: the watches of the others are opened meanwhile.
func TestRefusalOfOneResource(t *testing.T) {
	api := newFakeAPI(t)
	api.serveAll(group("many.example.com", kinds(2)...))
	var refused atomic.Int64
	api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/kinds0000") {
			return false
		}
		refused.Add(1)
		w.Header().Set("Retry-After", "60")
		writeStatus(w, http.StatusTooManyRequests, "TooManyRequests", "later")
		return true
	}
	r := start(t, api, dynwatch.Resource{Group: "many.example.com", Resource: "kinds0000"})
	r.eventually("a refusal", func() bool { return refused.Load() > 0 && r.manager.Targets()[0].Failures > 0 })
	both := []dynwatch.Resource{{Group: "many.example.com", Resource: "kinds0000"}, {Group: "many.example.com", Resource: "kinds0001"}}
	must(t, r.manager.Apply(both))
	r.eventually("the other one is live", func() bool { return r.live() == 1 })
}

// TestRefusalOfOneGroup: an API group can have a server of its own. If that is overloaded, the watches
// of other groups are opened meanwhile.
func TestRefusalOfOneGroup(t *testing.T) {
	api := newFakeAPI(t)
	api.serveAll(group("many.example.com", kinds(1)...), group("other.example.com", resource("others", "Other")))
	var refused atomic.Int64
	api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/apis/many.example.com/") || !strings.HasSuffix(r.URL.Path, "/kinds0000") {
			return false
		}
		refused.Add(1)
		w.Header().Set("Retry-After", "60")
		http.Error(w, "Too many requests", http.StatusTooManyRequests)
		return true
	}
	overloaded := dynwatch.Resource{Group: "many.example.com", Resource: "kinds0000"}
	r := start(t, api, overloaded)
	r.eventually("a refusal", func() bool { return refused.Load() > 0 && r.manager.Targets()[0].Failures > 0 })
	must(t, r.manager.Apply([]dynwatch.Resource{overloaded, {Group: "other.example.com", Resource: "others"}}))
	r.eventually("the other one is live", func() bool { return r.live() == 1 })
}
