package dynwatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// kinds returns the resources of a group with so many custom resources.
func kinds(count int) []fakeResource {
	all := make([]fakeResource, count)
	for i := range all {
		all[i] = resource(fmt.Sprintf("kinds%04d", i), fmt.Sprintf("Kind%04d", i))
	}
	return all
}

// isShown reports whether the targets are these and the wildcard "*/*".
func (r *rig) isShown(want ...string) bool {
	want = append(slices.Clone(want), "*/*")
	slices.Sort(want)
	return slices.Equal(r.names(), want)
}

// statusOf returns the status of a target, or of a wildcard.
func (r *rig) statusOf(name string) (s dynwatch.TargetStatus) {
	for _, s := range r.manager.Targets() {
		if s.Name == name {
			return s
		}
	}
	return s
}

// A wildcard over more resources than the limit watches as many as the limit allows.
// The status and one log line name the others.
func TestMaxWatches(t *testing.T) {
	r, logs := newListening(t, newFakeAPI(t))
	r.maxWatches = 4
	r.api.serveAll(group("example.com", resource("things", "Thing")), group("many.example.com", kinds(20)...))
	r.api.define()
	r.begin(things(), everything())
	first := []string{"example.com/things", "many.example.com/kinds0000", "many.example.com/kinds0001", "many.example.com/kinds0002"}
	r.eventually("the first ones are watched", func() bool { return r.isShown(first...) })
	r.eventually("the wildcard is looked at", func() bool { return r.statusOf("*/*").Looked }) // once they are started
	s := r.statusOf("*/*")
	want := "17 matching resources are not watched, because the limit is 4 watches: many.example.com/kinds0003, "
	if s.State != dynwatch.Degraded || !s.Looked || !strings.HasPrefix(s.Reason, want) || !strings.Contains(s.Reason, " and 7 more; ") {
		t.Errorf("shown as %+v", s)
	}
	for _, name := range first {
		r.eventually(name+" is live", func() bool { return r.statusOf(name).State == dynwatch.Live })
	}

	// A plan makes the same choice.
	plan, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: r.api.config(), MaxWatches: r.maxWatches}, []dynwatch.Resource{things(), everything()})
	must(t, err)
	var planned []string
	for _, p := range plan.Targets {
		planned = append(planned, p.Name)
		if p.Name == "*/*" && (p.State != s.State || p.Reason != s.Reason) {
			t.Errorf("planned %+v", p)
		}
	}
	same(t, planned, r.names())

	// A resource that comes later, and is first in the order, does not replace a watched one.
	r.api.install("a.example.com", resource("kinds", "Kind"))
	r.eventually("the new resource is named", func() bool { return strings.Contains(r.statusOf("*/*").Reason, "18 matching resources") })
	if !r.isShown(first...) {
		t.Errorf("targets %q", r.names())
	}
	r.stop(false)
	r.begin(things(), everything())
	r.eventually("the same ones are watched after a restart", func() bool { return r.isShown(first...) })

	// A resource that goes leaves its place to the next one.
	r.api.uninstall("many.example.com", "kinds0001")
	next := []string{"a.example.com/kinds", "example.com/things", "many.example.com/kinds0000", "many.example.com/kinds0002"}
	r.eventually("the next one is watched", func() bool { return r.isShown(next...) })

	// Two lines for each number of resources at most: one for each process.
	if n := logs.count("count=17"); n < 1 || n > 2 {
		t.Errorf("%d lines name the limit", n)
	}

	// A higher limit takes effect with the next Apply.
	r.manager.SetMaxWatches(0)
	must(t, r.manager.Apply([]dynwatch.Resource{things(), everything()}))
	r.eventually("everything is watched", func() bool { return len(r.names()) == 21 && r.statusOf("*/*").Name == "" })
	r.manager.SetMaxWatches(2)
	must(t, r.manager.Apply([]dynwatch.Resource{things(), everything()}))
	r.eventually("the limit is lower", func() bool { return r.isShown("a.example.com/kinds", "example.com/things") })
}

// Entries without a wildcard are watched whatever the limit is.
func TestMaxWatchesAndExplicitEntries(t *testing.T) {
	r := newRig(t, newFakeAPI(t))
	r.maxWatches = 1
	r.api.serveAll(usual()...)
	r.api.define()
	r.begin(things(), dynwatch.Resource{Resource: "pods"}, everything())
	r.eventually("both are watched", func() bool { return r.isShown("core/pods", "example.com/things") })
}

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
