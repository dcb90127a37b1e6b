package dynwatch_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch"
)

// breakVersion has a version answer as one does whose conversion webhook is broken: lists
// that hold an object fail, and no watch opens.
func breakVersion(api *fakeAPI, version string) {
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			broken := strings.HasSuffix(r.URL.Path, "/"+version+"/things") && !strings.Contains(r.URL.Query().Get("fieldSelector"), "-informd-no-object-")
			if broken {
				writeStatus(w, 500, "InternalError", "conversion webhook for example.com/v1, Kind=Thing failed")
			}
			return broken
		}
	})
}

// TestPreferredVersionStopsToAnswer: informd restarts, or its watch is cut, while the
// preferred version does not answer. Another version is watched, until it does.
func TestPreferredVersionStopsToAnswer(t *testing.T) {
	for name, c := range map[string]struct{ restart, first bool }{
		"after a restart": {restart: true}, "while it runs": {}, "at the first list": {first: true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.serveIn("v2", "v1")
			api.put("a", "x", "")
			var logs lockedBuffer
			r := newRig(t, api)
			r.logger = slog.New(slog.NewTextHandler(&logs, nil))
			if !c.first {
				r.begin(things())
				r.caughtUp()
			}
			if c.restart {
				r.stop(false)
			}
			breakVersion(api, "v2")
			api.put("a", "x", "")
			api.cut()
			if c.restart || c.first {
				r.begin(things())
			}
			r.eventually("another version is watched", func() bool {
				s := r.manager.Targets()[0]
				return s.State == dynwatch.Live && s.Version == "v1"
			})
			api.put("a", "x", "")
			r.caughtUp()
			if n := logs.count("preferred version fails"); n != 1 {
				t.Errorf("%d warnings, want one", n)
			}
			api.do(func() { api.refuse = nil })
			r.eventually("the preferred version is watched", func() bool {
				s := r.manager.Targets()[0]
				return s.State == dynwatch.Live && s.Version == "v2"
			})
			api.put("a", "x", "")
			r.caughtUp()
			want := []string{"snapshot a/x uid-1 101", "synced 101", "modified a/x uid-1 102<101", "modified a/x uid-1 103<102", "modified a/x uid-1 104<103"}
			if c.first {
				want = []string{"snapshot a/x uid-1 102", "synced 102", "modified a/x uid-1 103<102", "modified a/x uid-1 104<103"}
			}
			if diff := cmp.Diff(want, r.since(0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNamedVersionStopsToAnswer: the entry names the version, so no other one is watched,
// and the reason says which one would answer.
func TestNamedVersionStopsToAnswer(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn("v2", "v1")
	api.put("a", "x", "")
	wanted := things()
	wanted.Version = "v2"
	r := start(t, api, wanted)
	r.caughtUp()
	n := len(r.log.all())
	breakVersion(api, "v2")
	api.cut()
	r.eventually("degraded", func() bool {
		s := r.manager.Targets()[0]
		return s.State == dynwatch.Degraded && strings.Contains(s.Reason, "its version fails, and version v1 works")
	})
	api.put("a", "x", "")
	api.do(func() { api.refuse = nil })
	r.caughtUp()
	if diff := cmp.Diff([]string{"modified a/x uid-1 102<101"}, r.since(n)); diff != "" {
		t.Error(diff)
	}
}

// The watch cache of a large resource is filled for long after a restart of the API server.
// Lists that pass it by are answered, so that the version is not at fault.
func TestInitialisingKeepsTheVersion(t *testing.T) {
	api := newFakeAPI(t)
	api.serveIn("v2", "v1")
	api.put("a", "x", "")
	r := start(t, api, things())
	r.caughtUp()
	var refused, answered atomic.Int64
	api.do(func() {
		api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			q := r.URL.Query()
			// As the API server does: a limited list without selectors goes to etcd.
			limited := q.Get("limit") != "" && q.Get("fieldSelector") == "" && q.Get("labelSelector") == "" && q.Get("watch") == ""
			if !strings.HasSuffix(r.URL.Path, "/v2/things") {
				return false
			}
			if limited {
				answered.Add(1)
				return false
			}
			refused.Add(1)
			writeStatus(w, 429, "TooManyRequests", "storage is (re)initializing")
			return true
		}
	})
	api.cut()
	r.eventually("the version was asked in doubt", func() bool { return answered.Load() >= 2 && refused.Load() >= 3 })
	if s := r.manager.Targets()[0]; s.Version != "v2" {
		t.Errorf("moved to %s although v2 answers lists", s.Version)
	}
	api.do(func() { api.refuse = nil })
	r.caughtUp()
	if s := r.manager.Targets()[0]; s.Version != "v2" {
		t.Errorf("moved to %s", s.Version)
	}
}
