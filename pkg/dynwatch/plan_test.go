package dynwatch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
)

// planned is the plan of the fake's only resource.
func planned(t *testing.T, api *fakeAPI, wanted dynwatch.Resource) dynwatch.TargetPlan {
	t.Helper()
	all, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{wanted})
	if err != nil || len(all.Targets) != 1 {
		t.Fatalf("%v, plans: %+v", err, all.Targets)
	}
	return all.Targets[0]
}

// fill creates n objects, half of them with the label on=yes.
func (f *fakeAPI) fill(n int) {
	for i := range n {
		f.put("a", fmt.Sprintf("x-%03d", i), []string{"yes", ""}[i%2])
	}
}

func TestPlan(t *testing.T) {
	ready := dynwatch.TargetPlan{
		Name: "example.com/things", Group: "example.com", Version: "v1", Resource: "things", Kind: "Thing",
		Mode: dynwatch.Full, Scope: dynwatch.ScopeCluster, State: dynwatch.Ready,
	}
	cases := map[string]struct {
		begin  func(api *fakeAPI)
		wanted dynwatch.Resource
		rv     uint64
		change func(p *dynwatch.TargetPlan) // of what is ready
	}{
		"nothing there": {rv: 100},
		"all in one page": {
			begin: func(api *fakeAPI) { api.fill(20) }, rv: 120,
			change: func(p *dynwatch.TargetPlan) { p.Objects = 20 },
		},
		"the API server says how many there are": {
			begin: func(api *fakeAPI) { api.fill(100) }, rv: 200,
			change: func(p *dynwatch.TargetPlan) { p.Objects = 100 },
		},
		"with a selector it does not": {
			begin:  func(api *fakeAPI) { api.fill(62) },
			wanted: dynwatch.Resource{LabelSelector: "on=yes"}, rv: 162,
			change: func(p *dynwatch.TargetPlan) { p.Objects, p.More = 1, true },
		},
		"not served": {
			begin: func(api *fakeAPI) { api.served = false },
			change: func(p *dynwatch.TargetPlan) {
				p.Version, p.Kind = "", ""
				p.State, p.Reason = dynwatch.Waiting, `not served: the API server has no group "example.com"`
			},
		},
		"list is missing": {
			begin: func(api *fakeAPI) { api.denied = map[string]bool{"list": true} },
			change: func(p *dynwatch.TargetPlan) {
				p.MissingVerbs = []string{"list"}
				p.State, p.Reason = dynwatch.Forbidden, "list: things.example.com is forbidden: you cannot list it"
			},
		},
		"watch is missing": {
			begin: func(api *fakeAPI) { api.put("a", "x", "yes"); api.denied = map[string]bool{"watch": true} }, rv: 101,
			change: func(p *dynwatch.TargetPlan) {
				p.Objects, p.MissingVerbs = 1, []string{"watch"}
				p.State, p.Reason = dynwatch.Forbidden, "the credentials do not allow to watch it"
			},
		},
		"nobody knows what is missing": {
			begin: func(api *fakeAPI) {
				api.review = func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, 403, "Forbidden", "not for you") }
			}, rv: 100,
		},
		"no such resource": {
			wanted: dynwatch.Resource{Resource: "things/status"},
			change: func(p *dynwatch.TargetPlan) {
				p.Name, p.Resource, p.Version, p.Kind = "example.com/things/status", "things/status", "", ""
				p.State, p.Reason = dynwatch.Waiting, `not served: the API server has no resource "things/status" in example.com (did you mean "things"?)`
			},
		},
		"metadata, of one namespace": {
			begin:  func(api *fakeAPI) { api.fill(3); api.put("b", "y", "") },
			wanted: dynwatch.Resource{Mode: dynwatch.Metadata, Namespaces: []string{"b"}}, rv: 104,
			change: func(p *dynwatch.TargetPlan) {
				p.Name, p.Namespace, p.Scope = "example.com/things@b", "b", dynwatch.ScopeNamespaced
				p.Mode, p.Objects = dynwatch.Metadata, 1
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			if c.begin != nil {
				c.begin(api)
			}
			if c.wanted.Group = "example.com"; c.wanted.Resource == "" {
				c.wanted.Resource = "things"
			}
			want := ready
			want.ResourceVersion = c.rv
			if c.change != nil {
				c.change(&want)
			}
			same(t, want, planned(t, api, c.wanted))
		})
	}
}

// A plan asks about four targets at a time, writes nothing, and lists in pages.
func TestPlanIsGentle(t *testing.T) {
	api := newFakeAPI(t)
	api.fill(100)
	var writes, held, most atomic.Int64
	release := make(chan struct{})
	api.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		if r.URL.Query().Get("limit") != "" {
			if n := held.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-release
			held.Add(-1)
		}
		return false
	}
	wanted := things()
	for i := range 30 {
		wanted.Namespaces = append(wanted.Namespaces, fmt.Sprintf("ns-%d", i))
	}
	var all dynwatch.WatchPlan
	ended := make(chan error)
	go func() {
		var err error
		all, err = dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{wanted})
		ended <- err
	}()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(deadline); held.Load() < 4 && time.Now().Before(end); {
		<-poll.C
	}
	if n, reviews := held.Load(), api.requestsWith("selfsubjectaccessreviews"); n != 4 || reviews != 8 {
		t.Errorf("%d lists at a time, %d reviews: want 4 targets", n, reviews)
	}
	close(release)
	if err := <-ended; err != nil || len(all.Targets) != 30 || most.Load() > 4 || writes.Load() > 0 {
		t.Errorf("%v, %d plans, %d lists at a time, %d requests that write", err, len(all.Targets), most.Load(), writes.Load())
	}
	if !slices.IsSortedFunc(all.Targets, func(a, b dynwatch.TargetPlan) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted by name")
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	for _, r := range api.requests {
		u, err := url.Parse(r)
		must(t, err)
		if limit, _ := strconv.Atoi(u.Query().Get("limit")); strings.HasSuffix(u.Path, "/things") && u.Query().Get("watch") == "" && (limit < 1 || limit > 500) {
			t.Errorf("a list without a limit: %s", r)
		}
	}
}

// The API server is not there, or does not know who asks: that is no plan.
func TestPlanWithoutServer(t *testing.T) {
	status := func(code int, reason string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			writeStatus(w, code, reason, "sorry")
			return true
		}
	}
	cases := map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"credentials": status(401, "Unauthorized"),
		"starting":    status(503, "ServiceUnavailable"),
		"another server": func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>")
			return true
		},
		"cut": func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
	}
	for name, refuse := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.refuse = refuse
			all, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{things()})
			if err == nil || all.Targets != nil || !strings.Contains(err.Error(), api.server.URL) {
				t.Errorf("%v, plans: %+v", err, all)
			}
		})
	}
	if _, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: &rest.Config{Host: "http://127.0.0.1:1"}}, nil); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
	api := newFakeAPI(t)
	if _, err := dynwatch.Plan(t.Context(), dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{{}}); err == nil || !strings.Contains(err.Error(), "the resource name is missing") {
		t.Errorf("a set that is not valid: %v", err)
	}
	if n := api.requestsWith(""); n > 0 {
		t.Errorf("%d requests for a set that is not valid", n)
	}
}

// An end from outside does not wait for a server that hangs.
func TestPlanEnds(t *testing.T) {
	api := newFakeAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	api.refuse = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("limit") != "" {
			cancel()
			<-r.Context().Done()
		}
		return false
	}
	if _, err := dynwatch.Plan(ctx, dynwatch.Options{Kubernetes: api.config()}, []dynwatch.Resource{things()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
