package dynwatch_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

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
