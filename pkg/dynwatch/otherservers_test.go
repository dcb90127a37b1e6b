package dynwatch_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// sendFrames has every watch of things bring what is sent, and nothing else.
func sendFrames(api *fakeAPI) (send func(frames ...string)) {
	frames := make(chan string)
	api.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" || !strings.HasSuffix(r.URL.Path, "/things") {
			return false
		}
		flusher, _ := w.(http.Flusher)
		flusher.Flush()
		for {
			select {
			case frame := <-frames:
				fmt.Fprintln(w, frame)
				flusher.Flush()
			case <-r.Context().Done():
				return true
			}
		}
	})
	return func(all ...string) {
		for _, frame := range all {
			frames <- frame
		}
	}
}

func frameOf(kind, name, uid string, rv uint64) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"a","name":%q,"uid":%q,"resourceVersion":"%d"},"spec":{}}}`, kind, name, uid, rv)
}

// TestStreamsOfServersWithoutEtcd: frames come with revisions that etcd would not give them.
func TestStreamsOfServersWithoutEtcd(t *testing.T) {
	cases := map[string]struct{ frames, want []string }{
		"deletions at the last revision": {
			[]string{frameOf("DELETED", "x", "uid-1", 101), frameOf("DELETED", "z", "uid-3", 103), frameOf("ADDED", "z", "uid-9", 104)},
			[]string{"deleted a/x uid-1 101<101", "deleted a/z uid-3 103<103", "added a/z uid-9 104"},
		},
		"a deletion twice": {
			[]string{frameOf("DELETED", "x", "uid-1", 101), frameOf("DELETED", "x", "uid-1", 101)},
			[]string{"deleted a/x uid-1 101<101"},
		},
		"a deletion of an older object": {
			[]string{frameOf("DELETED", "x", "uid-0", 101), frameOf("DELETED", "y", "uid-2", 100)}, nil,
		},
		"frames from before the position": {
			[]string{frameOf("MODIFIED", "y", "uid-2", 190), frameOf("ADDED", "w", "uid-8", 150), frameOf("MODIFIED", "x", "uid-1", 160), frameOf("DELETED", "w", "uid-8", 170)},
			[]string{"modified a/y uid-2 190<102", "added a/w uid-8 150", "modified a/x uid-1 160<101", "deleted a/w uid-8 170<150"},
		},
		"everything again": {
			[]string{frameOf("ADDED", "x", "uid-1", 101), frameOf("ADDED", "y", "uid-2", 102), frameOf("ADDED", "z", "uid-3", 103)}, nil,
		},
		"bookmarks without a revision": {
			[]string{
				`{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{}}}`,
				`{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"resourceVersion":""}}}`,
				`{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"resourceVersion":"0"}}}`,
			}, nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t, "a/x", "a/y", "a/z")
			send := sendFrames(api)
			r := start(t, api, things())
			r.eventually("live", func() bool { return r.manager.Targets()[0].State == "live" })
			n := len(r.log.all())
			api.do(func() { api.rev = 500 })
			send(c.frames...)
			send(frameOf("ADDED", "last", "uid-last", 200))
			want := append(c.want, "added a/last uid-last 200")
			r.eventually("all frames", func() bool { return len(r.since(n)) >= len(want) })
			r.wantEvents(n, want...)
			// The next process announces nothing again.
			r.stop(true)
			api.do(func() { api.generation++ })
			n = len(r.log.all())
			r.begin(things())
			r.eventually("live again", func() bool { return r.manager.Targets()[0].State == "live" })
			for _, frame := range c.frames {
				if !strings.Contains(frame, `"w"`) { // which is gone: no server sends it again
					send(frame)
				}
			}
			send(frameOf("ADDED", "more", "uid-more", 300))
			r.eventually("all frames", func() bool { return len(r.since(n)) >= 1 })
			r.wantEvents(n, "added a/more uid-more 300")
			if len(r.log.rejected) > 0 {
				t.Errorf("rejected: %+v", r.log.rejected)
			}
		})
	}
}

// TestFieldSelectorsIgnored: a list of one name holds all objects. Nothing tells objects that leave a
// selection from deleted ones: they left.
func TestFieldSelectorsIgnored(t *testing.T) {
	api := newFakeAPI(t, "a/x yes", "a/y yes", "a/z yes")
	api.do(func() { api.unselecting = true })
	r, n := liveFrom(t, api, selectingOn())
	api.put("a", "x", "no")
	api.del("a", "y")
	api.put("a", "z", "yes")
	want := []string{"left a/x uid-1", "left a/y uid-2", "modified a/z uid-3"}
	r.eventually("all changes", func() bool { return len(r.since(n)) >= len(want) })
	got := make(map[string]bool)
	for _, line := range r.since(n) {
		got[line[:strings.LastIndex(line[:strings.IndexByte(line+"<", '<')], " ")]] = true
	}
	for _, line := range want {
		if !got[line] {
			t.Errorf("no %s: %q", line, r.since(n))
		}
	}
	if len(got) != len(want) {
		t.Errorf("events: %q", r.since(n))
	}
}

// rewriteLists changes the body of each list of things.
func rewriteLists(api *fakeAPI, change func(r *http.Request, body string) string) {
	api.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !ofThings(r) || verbOf(r) != "list" {
			return false
		}
		answer := httptest.NewRecorder()
		api.serveList(answer, r, "")
		w.WriteHeader(answer.Code)
		fmt.Fprint(w, change(r, answer.Body.String()))
		return true
	})
}

// TestListsWithoutItems: the server writes an empty list without items, as Go types with
// omitempty do. Nothing that exists is announced as deleted, and what no longer exists is.
func TestListsWithoutItems(t *testing.T) {
	api := newFakeAPI(t)
	rewriteLists(api, func(_ *http.Request, body string) string { return strings.Replace(body, `"items":[],`, "", 1) })
	r := live(t, api, things())
	api.put("a", "x", "")
	api.put("a", "y", "")
	r.caughtUp()
	r.stop(false)
	n := len(r.log.all())
	api.del("a", "x")
	api.del("a", "y")
	api.forget()
	api.compact()
	r.goLive(things())
	r.consistent()
	want := []string{"deleted a/x uid-1 104<101 replay", "deleted a/y uid-2 104<102 replay", "gap (102,104] expired state"}
	r.wantUnordered(n, want...)
}

// TestServersWithoutRevisions: a server whose lists have no revision, or one that is no number, cannot
// be watched, and the reason says so. Nothing is announced.
func TestServersWithoutRevisions(t *testing.T) {
	for name, revision := range map[string]string{"none": "", "zero": "0", "opaque": "c2Nyb2xs"} {
		t.Run(name, func(t *testing.T) {
			api := fourObjects(t)
			rewriteLists(api, func(_ *http.Request, body string) string {
				return strings.Replace(body, `"resourceVersion":"104"}}`, fmt.Sprintf(`"resourceVersion":%q}}`, revision), 1)
			})
			r := start(t, api, things())
			s := r.state(dynwatch.Degraded)
			wrong := "no resourceVersion"
			if name == "opaque" {
				wrong = "not a decimal number"
			}
			if !strings.Contains(s.Reason, wrong) || len(r.log.all()) > 0 {
				t.Errorf("reason %q, events %q", s.Reason, r.since(0))
			}
		})
	}
}

// TestListWithoutAnEnd: the server repeats a continue token. The list ends with an error, and the next
// attempts pause. With other tokens the first list is complete.
func TestListWithoutAnEnd(t *testing.T) {
	api := fourObjects(t)
	rewriteLists(api, func(r *http.Request, body string) string {
		if r.URL.Query().Get("limit") == "1" {
			return body
		}
		return strings.Replace(body, `"continue":""`, `"continue":"104-1"`, 1)
	})
	r := start(t, api, things())
	r.eventually("an error", func() bool { return strings.Contains(r.manager.Targets()[0].Reason, "continue token") })
	api.admit()
	r.caughtUp()
	r.consistent()
}
