package dynwatch_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// otherStore has the Namespaces look as if they were in a store with other revisions.
func (f *fakeAPI) otherStore(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	f.mu.Lock()
	by := f.elsewhere
	f.mu.Unlock()
	if by == 0 {
		return w, r
	}
	r = r.Clone(r.Context())
	q := r.URL.Query()
	if rv, err := strconv.ParseInt(q.Get("resourceVersion"), 10, 64); err == nil && rv > 0 {
		q.Set("resourceVersion", strconv.FormatInt(rv-by, 10))
	}
	r.URL.RawQuery = q.Encode()
	return &shifted{w, by}, r
}

// shifted moves the revisions in an answer.
type shifted struct {
	http.ResponseWriter

	by int64
}

func (s *shifted) Write(p []byte) (int, error) {
	revisions := regexp.MustCompile(`"resourceVersion":"(\d+)"`)
	moved := revisions.ReplaceAllStringFunc(string(p), func(m string) string {
		rv, _ := strconv.ParseInt(revisions.FindStringSubmatch(m)[1], 10, 64)
		return `"resourceVersion":"` + strconv.FormatInt(rv+s.by, 10) + `"`
	})
	_, err := s.ResponseWriter.Write([]byte(moved))
	return len(p), err
}

func (s *shifted) Flush() {
	if flusher, ok := s.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

// TestNamespacesInAnotherStore: a namespace comes to match, and the watch of the Namespaces
// is behind. Which frames came before that, the revisions do not say.
func TestNamespacesInAnotherStore(t *testing.T) {
	for name, by := range map[string]int64{"with higher revisions": 1_000_000, "with lower revisions": -90} {
		for kind, late := range map[string]bool{"changes before": false, "changes before and after": true} {
			t.Run(name+", "+kind, func(t *testing.T) {
				api := newFakeAPI(t)
				api.do(func() { api.elsewhere = by })
				api.put("", "team-a", "yes")
				api.put("", "team-b", "no")
				api.put("team-a", "x", "")
				r, n := liveFrom(t, api, labelled())
				api.put("team-b", "early", "") // 104
				api.del("team-b", "early")
				api.put("team-b", "x", "") // 106
				r.caughtUp()
				if late {
					api.do(func() { api.slow = ofNamespaces })
				}
				api.put("", "team-b", "yes") // 107
				if late {
					api.put("team-b", "x", "")
					api.put("team-b", "x", "") // 109
					r.eventually("the things' watch is ahead", func() bool { return r.manager.Targets()[0].ResourceVersion == 109 })
					api.do(func() { api.slow = nil })
				}
				r.eventually("it enters", func() bool { return strings.Contains(strings.Join(r.since(n), "\n"), "entered team-b/x") })
				api.put("team-b", "x", "")
				r.caughtUp()
				r.eventually("the last change", func() bool {
					all := r.since(n)
					return strings.HasPrefix(all[len(all)-1], "modified team-b/x")
				})
				want := []string{"entered team-b/x uid-5 106", "gap (0,107] selection state", "modified team-b/x uid-5 108<106"}
				if late {
					want = []string{"entered team-b/x uid-5 109", "gap (0,109] selection state", "modified team-b/x uid-5 110<109"}
				}
				got := r.since(n)
				for i := range got { // the watch has come as far as one of the two
					got[i] = strings.Replace(got[i], "gap (0,106]", "gap (0,107]", 1)
				}
				same(t, want, got)
			})
		}
	}
}

// TestNamespacesInAnotherStoreOverARestart: a namespace came to match while informd was down.
func TestNamespacesInAnotherStoreOverARestart(t *testing.T) {
	api := newFakeAPI(t)
	api.do(func() { api.elsewhere = 1_000_000 })
	api.put("", "team-a", "yes")
	api.put("", "team-b", "no")
	api.put("team-a", "x", "")
	r := live(t, api, labelled())
	r.stop(false)
	n := len(r.log.all())
	api.put("team-b", "x", "") // 104
	api.put("", "team-b", "yes")
	api.put("team-b", "x", "") // 106
	api.put("team-a", "x", "")
	r.goLive(labelled())
	// The watch brings everything after the position of the process before this one, which
	// can have filtered out frames before it.
	want := []string{"added team-b/x uid-4 104", "gap (0,103] selection state", "modified team-a/x uid-3 107<103", "modified team-b/x uid-4 106<104"}
	r.eventually("all changes", func() bool { return len(r.since(n)) >= len(want) })
	r.wantUnordered(n, want...)
}

// TestNamespacesRestoredDuringDowntime: the Namespaces were restored to an older state while informd
// was down. The objects show no rollback: they are in a store that was not restored, or the backup
// is newer than the position of their watch.
func TestNamespacesRestoredDuringDowntime(t *testing.T) {
	cases := map[string]struct {
		before, restore func(*fakeAPI)
		gap             string
		rest            []string // of the time until what does not match has left
	}{
		"another store": {
			func(api *fakeAPI) { api.elsewhere = 1_000_000 },
			func(api *fakeAPI) { api.elsewhere = 500_000 },
			"gap (0,104] selection state",
			[]string{"gap (104,106] selection state"},
		},
		"the same store": {
			func(api *fakeAPI) { api.slow = notOfNamespaces },
			func(api *fakeAPI) { api.slow, api.rev, api.oldest = nil, 104, 104 },
			"gap (104,106] selection state",
			nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.do(func() { c.before(api) })
			api.put("", "team-a", "yes")
			api.put("", "team-b", "no")
			api.put("team-a", "x", "")
			api.put("team-b", "x", "") // 104
			r := live(t, api, labelled())
			api.do(func() {
				if api.elsewhere == 0 {
					api.rev = 110 // the watch of the Namespaces is ahead
				}
			})
			r.eventually("the checkpoint", func() bool {
				mark := string(r.log.marksNow()["example.com/things"])
				return strings.Contains(mark, `"namespacesAt":110`) || strings.Contains(mark, `"namespacesAt":1000104`)
			})
			r.stop(false)
			n := len(r.log.all())
			api.do(func() { c.restore(api) })
			api.put("", "team-a", "no")
			api.put("", "team-b", "yes") // 106
			r.begin(labelled())
			want := append([]string{"entered team-b/x uid-4 104 replay", c.gap, "left team-a/x uid-3 103<103"}, c.rest...)
			r.eventually("all of it", func() bool { return len(r.since(n)) >= len(want) })
			r.wantEvents(n, want...)
			r.caughtUp()
			if s := r.manager.Targets()[0]; s.Objects != 1 || s.Epoch != 0 {
				t.Errorf("%d objects and epoch %d, want 1 and 0", s.Objects, s.Epoch)
			}
		})
	}
}
