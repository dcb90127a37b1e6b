package dynwatch_test

import (
	"net/http"
	"strings"
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
// alone, and one without that the server of one API group: the watches of the others are opened meanwhile.
func TestRefusalOfOneResource(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(w http.ResponseWriter)
		other  dynwatch.Resource
	}{
		"of one resource": {
			refusal(429, "TooManyRequests", "later"), dynwatch.Resource{Group: "many.example.com", Resource: "kinds0001"},
		},
		"of one group": {
			func(w http.ResponseWriter) { http.Error(w, "Too many requests", http.StatusTooManyRequests) },
			dynwatch.Resource{Group: "other.example.com", Resource: "others"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := newWildAPI(t, group("many.example.com", kinds(2)...), group("other.example.com", resource("others", "Other")))
			ofOverloaded := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/kinds0000") }
			refused := api.refuseTimes(forEver, ofOverloaded, func(w http.ResponseWriter) {
				w.Header().Set("Retry-After", "60")
				c.refuse(w)
			})
			overloaded := dynwatch.Resource{Group: "many.example.com", Resource: "kinds0000"}
			r := start(t, api, overloaded)
			r.eventually("a refusal", func() bool { return refused.Load() > 0 && r.manager.Targets()[0].Failures > 0 })
			must(t, r.manager.Apply([]dynwatch.Resource{overloaded, c.other}))
			r.eventually("the other one is live", func() bool { return r.live() == 1 })
		})
	}
}
