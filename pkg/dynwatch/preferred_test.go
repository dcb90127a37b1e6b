package dynwatch_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/dynwatch"
)

// breakVersion has a version answer as one does whose conversion webhook is broken: lists
// that hold an object fail, and no watch opens.
func breakVersion(api *fakeAPI, version string) {
	api.keepRefusing(func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/"+version+"/things") && !strings.Contains(r.URL.Query().Get("fieldSelector"), "-informd-no-object-")
	}, refusal(500, "InternalError", "conversion webhook for example.com/v1, Kind=Thing failed"))
}

// TestPreferredVersionStopsToAnswer: the target says so until it answers, or until the entry names another
// version.
func TestPreferredVersionStopsToAnswer(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn("v2", "v1")
	api.put("a", "x", "")
	r, n := liveFrom(t, api, things())
	stale := func() bool {
		s := r.manager.Targets()[0]
		return s.State == dynwatch.Stale && s.Version == "v2" && strings.Contains(s.Reason, "conversion webhook")
	}
	breakVersion(api, "v2")
	api.cut()
	r.eventually("stale", stale)
	api.put("a", "x", "")
	api.admit()
	r.caughtUp()
	breakVersion(api, "v2")
	api.cut()
	r.eventually("stale again", stale)
	named := things()
	named.Version = "v1"
	must(t, r.manager.Apply([]dynwatch.Resource{named}))
	api.put("a", "x", "")
	r.caughtUp()
	r.wantEvents(n, "modified a/x uid-1 102<101", "modified a/x uid-1 103<102")
}
