package dynwatch_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// An API server answers one kind of request with errors for ever, and all others well. The target
// takes another way, and declares what that way cannot show.

// answers are how servers and proxies refuse a request.
func answers() map[string]func(w http.ResponseWriter) {
	status := func(code int, reason string) func(w http.ResponseWriter) {
		return refusal(code, reason, "StorageError: corrupt object")
	}
	return map[string]func(w http.ResponseWriter){
		"500": status(500, "InternalError"),
		"403": status(403, "Forbidden"),
		"404": status(404, "NotFound"),
		"a proxy's 404": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<html>no page</html>")
		},
		"an empty body":   func(http.ResponseWriter) {},
		"a broken answer": func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"kind":"ThingList","items":[{"meta`) },
	}
}

// refusal answers with a Status.
func refusal(code int, reason, message string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) { writeStatus(w, code, reason, message) }
}

func anything(*http.Request) bool { return true }

// isPage reports whether a request is a page of a list.
func isPage(r *http.Request) bool { return r.URL.Query().Get("limit") == "500" }

// isExact reports whether a request is a list of all objects at an exact revision.
func isExact(r *http.Request) bool {
	return ofThings(r) && r.URL.Query().Get("resourceVersionMatch") == "Exact" && !byName(r)
}

// byName reports whether a request is a look-up of an object, not one of the newest revision.
func byName(r *http.Request) bool {
	selector := r.URL.Query().Get("fieldSelector")
	return ofThings(r) && strings.Contains(selector, "metadata.name=") && !strings.Contains(selector, "-informd-")
}

// gapsSince are the gaps after the first n events, as "reason recovered".
func (r *rig) gapsSince(n int) (gaps []string) {
	for _, e := range r.log.all()[n:] {
		if e.Op == event.Gap {
			gaps = append(gaps, e.Gap.Reason+" "+string(e.Gap.Recovered))
		}
	}
	return gaps
}

// Lists at exact revisions fail, or those of metadata: the newest one, or one of whole objects, is left.
func TestListsThatKeepFailing(t *testing.T) {
	metadata := func(r *http.Request) bool {
		return ofThings(r) && metadataOnly(r) && !strings.Contains(r.URL.RawQuery, "-informd-")
	}
	for name, c := range map[string]struct {
		what   func(*http.Request) bool
		answer string // other pages are requested again for half a minute
		gap    string
	}{
		"exact, 403": {isExact, "403", "expired "},
		"exact, 404": {isExact, "404", "expired "},
		"metadata":   {metadata, "403", "expired state"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fourObjects(t)
			r, n := liveFrom(t, api, things())
			api.keepRefusing(c.what, answers()[c.answer])
			breakWith(api, api.forget)
			r.caughtUp()
			r.consistent()
			if got := r.gapsSince(n); len(got) != 1 || !strings.HasPrefix(got[0], c.gap) {
				t.Errorf("gaps: %q", got)
			}
			checkStream(t, r.log.all(), api)
		})
	}
}

// A history walk leaves out what it cannot read, and brings everything else.
func TestHistoryOfAnObjectThatKeepsFailing(t *testing.T) {
	api := fourObjects(t)
	r, n := liveFrom(t, api, things())
	api.keepRefusing(func(r *http.Request) bool {
		q := r.URL.Query()
		return byName(r) && strings.Contains(q.Get("fieldSelector"), "=deleted") && q.Get("resourceVersion") < "112"
	}, answers()["500"])
	breakWith(api, api.forget)
	r.caughtUp()
	r.consistent()
	got := r.since(n)
	for _, want := range []string{
		"modified a/changed uid-1 105<101 replay", "modified a/changed uid-1 106<105 replay",
		"deleted a/recreated uid-3 108<103 replay",
		"deleted a/deleted uid-2 112<102 replay", "gap (104,112] expired partial",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
	checkStream(t, r.log.all(), api)
}

// A watch that fails from its position is replaced by a list.
func TestWatchThatKeepsFailing(t *testing.T) {
	cases := answers()
	cases["an error frame"] = func(w http.ResponseWriter) {
		fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", statusJSON(500, "InternalError", "StorageError: corrupt object"))
	}
	delete(cases, "an empty body")   // a watch that ended
	delete(cases, "a broken answer") // the same
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fourObjects(t)
			r := startHasty(t, api, things())
			r.caughtUp()
			n := len(r.log.all())
			api.keepRefusing(func(r *http.Request) bool {
				return isWatch(r) && strings.Contains(r.URL.RawQuery, "resourceVersion=104")
			}, answer)
			breakWith(api, api.cut)
			r.caughtUp()
			r.consistent()
			if got := r.gapsSince(n); len(got) > 1 || len(got) == 1 && !strings.HasPrefix(got[0], "behind ") {
				t.Errorf("gaps: %q", got)
			}
			checkStream(t, r.log.all(), api)
		})
	}
}

// What an edit has dropped is found by a list of now if the exact one keeps failing.
func TestRestartAfterAnEditWithoutExactLists(t *testing.T) {
	refuse := func(api *fakeAPI) { api.keepRefusing(isExact, answers()["403"]) }
	restartAfterEdit(t, func(r *dynwatch.Resource) { r.LabelSelector = "on=yes" }, refuse, false)
}

// An outage is no error of one request: nothing is given up for it.
func TestOutageEndsNoWayOfRecovery(t *testing.T) {
	api := fourObjects(t)
	r, n := liveFrom(t, api, things())
	breakWith(api, func() {
		api.forget()
		api.keepRefusing(anything, answers()["500"])
	})
	began, before := time.Now(), api.requestsWith("/things")
	r.eventually("an outage that is long enough", func() bool {
		return time.Since(began) > 500*time.Millisecond && api.requestsWith("/things") > before+10
	})
	api.admit()
	r.caughtUp()
	same(t, []string{"expired known"}, r.gapsSince(n))
}

// Look-ups by name fail for ever: the first list after a lost journal believes the list, and what no longer has its
// selector's labels has left.
func TestLookUpsThatKeepFailing(t *testing.T) {
	unselected := func(r *http.Request) bool { return byName(r) && r.URL.Query().Get("labelSelector") == "" }
	ofNow := func(r *http.Request) bool { return unselected(r) && r.URL.Query().Get("resourceVersion") == "" }
	for _, answer := range []string{"403", "500"} {
		t.Run("first list "+answer, func(t *testing.T) {
			api := fourObjects(t)
			r := live(t, api, things())
			n := len(r.log.all())
			r.stop(false)
			r.log.set(func() { r.log.void = true })
			api.del("a", "deleted")
			api.keepRefusing(byName, answers()[answer])
			r.begin(things())
			r.caughtUp()
			r.consistent()
			if got := r.gapsSince(n); !slices.Equal(got, []string{"journal state"}) {
				t.Errorf("gaps: %q", got)
			}
		})
	}
	for name, c := range map[string]struct {
		fails func(*http.Request) bool
		lose  func(*fakeAPI)
	}{"recovery": {unselected, (*fakeAPI).forget}, "watch": {ofNow, (*fakeAPI).compact}} {
		t.Run(name, func(t *testing.T) {
			api, wanted := fourObjects(t), things()
			wanted.LabelSelector = "on=yes"
			r := live(t, api, wanted)
			n := len(r.log.all())
			api.keepRefusing(c.fails, answers()["500"])
			api.do(func() { api.mute = true })
			api.put("a", "changed", "no")
			api.put("a", "same", "yes")
			c.lose(api)
			api.do(func() { api.mute = false })
			r.caughtUp()
			if got := ends(r.since(n), "a/changed"); len(got) != 1 || !strings.HasPrefix(got[0], "left ") {
				t.Errorf("%q of %q", got, r.since(n))
			}
		})
	}
}

// The exact list of a namespace that begins to match fails for ever: others are not held up, and its objects enter.
func TestNamespaceWithoutExactLists(t *testing.T) {
	api := newFakeAPI(t, "/team-a no", "/team-b yes", "team-a/one", "team-b/two")
	r := live(t, api, labelled())
	n := len(r.log.all())
	api.keepRefusing(func(r *http.Request) bool {
		return isExact(r) && strings.Contains(r.URL.Path, "/team-a/")
	}, answers()["500"])
	api.put("", "team-a", "yes")
	api.put("team-b", "two", "")
	r.within(20*time.Second, "one enters", func() bool { return count(r.log.all()[n:], event.Entered) == 1 })
	r.within(20*time.Second, "two changes", func() bool { return count(r.log.all()[n:], event.Modified) == 1 })
	r.caughtUp()
}

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
