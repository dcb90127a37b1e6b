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

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
)

// planned is the plan of the fake's only resource.
func planned(t *testing.T, api *fakeAPI, wanted dynwatch.Resource) dynwatch.TargetPlan {
	t.Helper()
	all, err := dynwatch.PlanCounting(t.Context(), api.config(), []dynwatch.Resource{wanted}, 30, 4)
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
	ready := func(rv uint64) dynwatch.TargetPlan {
		return dynwatch.TargetPlan{
			Name: "example.com/things", Group: "example.com", Version: "v1", Resource: "things", Kind: "Thing", Mode: dynwatch.Full, Scope: dynwatch.ScopeCluster,
			State: dynwatch.Ready, ResourceVersion: rv, WatchFrom: 1, EtcdFrom: 1,
		}
	}
	const each = 300 // bytes of an object
	size := func(objects int) uint64 { return uint64(objects) * each }
	cases := map[string]struct {
		begin  func(api *fakeAPI)
		wanted dynwatch.Resource
		want   func() dynwatch.TargetPlan
	}{
		"nothing there": {want: func() dynwatch.TargetPlan { return ready(100) }},
		"all in one page": {
			begin: func(api *fakeAPI) { api.fill(20) },
			want: func() dynwatch.TargetPlan {
				p := ready(120)
				p.Objects, p.Bytes, p.Weighed = 20, size(20), 20
				return p
			},
		},
		"the API server says how many there are": {
			begin: func(api *fakeAPI) { api.fill(100) },
			want: func() dynwatch.TargetPlan {
				p := ready(200)
				p.Objects, p.Bytes, p.Weighed = 100, size(100), 20
				return p
			},
		},
		"with a selector they are counted": {
			begin:  func(api *fakeAPI) { api.fill(60) },
			wanted: dynwatch.Resource{LabelSelector: "on=yes"},
			want: func() dynwatch.TargetPlan {
				p := ready(160)
				p.Objects, p.Bytes, p.Weighed = 30, size(30), 20
				return p
			},
		},
		"but not for ever": {
			begin:  func(api *fakeAPI) { api.fill(62) },
			wanted: dynwatch.Resource{LabelSelector: "on=yes"},
			want: func() dynwatch.TargetPlan {
				p := ready(162)
				p.Objects, p.More, p.Bytes, p.Weighed = 30, true, size(30), 20
				return p
			},
		},
		"not served": {
			begin: func(api *fakeAPI) { api.served = false },
			want: func() dynwatch.TargetPlan {
				p := ready(0)
				p.Version, p.Kind, p.WatchFrom, p.EtcdFrom = "", "", 0, 0
				p.State, p.Reason = dynwatch.Waiting, `not served: the API server has no group "example.com"`
				return p
			},
		},
		"list is missing": {
			begin: func(api *fakeAPI) { api.denied = map[string]bool{"list": true} },
			want: func() dynwatch.TargetPlan {
				p := ready(0)
				p.WatchFrom, p.EtcdFrom, p.MissingVerbs = 0, 0, []string{"list"}
				p.State, p.Reason = dynwatch.Forbidden, "list: things.example.com is forbidden: you cannot list it"
				return p
			},
		},
		"watch is missing": {
			begin: func(api *fakeAPI) { api.put("a", "x", "yes"); api.denied = map[string]bool{"watch": true} },
			want: func() dynwatch.TargetPlan {
				p := ready(101)
				p.Objects, p.Bytes, p.Weighed = 1, size(1), 1
				p.WatchFrom, p.EtcdFrom, p.MissingVerbs = 0, 0, []string{"watch"}
				p.State, p.Reason = dynwatch.Forbidden, "watch: things.example.com is forbidden: you cannot watch it"
				return p
			},
		},
		"nobody knows what is missing": {
			begin: func(api *fakeAPI) {
				api.review = func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, 403, "Forbidden", "not for you") }
			},
			want: func() dynwatch.TargetPlan { return ready(100) },
		},
		"no such resource": {
			wanted: dynwatch.Resource{Resource: "things/status"},
			want: func() dynwatch.TargetPlan {
				p := ready(0)
				p.Name, p.Resource, p.Version, p.Kind, p.WatchFrom, p.EtcdFrom = "example.com/things/status", "things/status", "", "", 0, 0
				p.State, p.Reason = dynwatch.Waiting, `not served: the API server has no resource "things/status" in example.com (did you mean "things"?)`
				return p
			},
		},
		"metadata, of one namespace": {
			begin:  func(api *fakeAPI) { api.fill(3); api.put("b", "y", "") },
			wanted: dynwatch.Resource{Mode: dynwatch.Metadata, Namespaces: []string{"b"}},
			want: func() dynwatch.TargetPlan {
				p := ready(104)
				p.Name, p.Namespace, p.Scope = "example.com/things@b", "b", dynwatch.ScopeNamespaced
				p.Mode, p.Objects, p.Bytes, p.Weighed = dynwatch.Metadata, 1, size(1), 1
				return p
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.mangle = func(s string) string { return "{" + strings.Repeat(" ", each-len(s)) + s[1:] }
			if c.begin != nil {
				c.begin(api)
			}
			if c.wanted.Group = "example.com"; c.wanted.Resource == "" {
				c.wanted.Resource = "things"
			}
			if diff := cmp.Diff(c.want(), planned(t, api, c.wanted)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// How far back one can go: a watch by what its refusal names, etcd within 1/32.
func TestPlanReach(t *testing.T) {
	refuseLists := func(reason string, code int) func(api *fakeAPI) {
		return func(api *fakeAPI) {
			api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
				refused := r.URL.Query().Get("resourceVersionMatch") != ""
				if refused {
					writeStatus(w, code, reason, "no list at a revision")
				}
				return refused
			}
		}
	}
	const now = 1_000_000
	cases := map[string]struct {
		oldest, compacted   uint64
		begin               func(api *fakeAPI)
		watchFrom, etcdFrom uint64
		reason              string
	}{
		"all":                       {0, 0, nil, 1, 1, ""},
		"cache is shorter":          {999_000, 900_000, nil, 999_000, 900_000, ""},
		"cache is longer":           {400_000, 900_000, nil, 400_000, 900_000, ""},
		"nothing but now":           {now, now, nil, now, now, ""},
		"one before":                {now - 1, now - 1, nil, now - 1, now - 1, ""},
		"all but the first":         {2, 2, nil, 2, 2, ""},
		"refused with no name":      {999_000, 900_000, func(api *fakeAPI) { api.nameless = true }, 900_000, 900_000, ""},
		"no lists at revisions":     {999_000, 0, refuseLists("BadRequest", 400), 999_000, 0, ""},
		"nor are watches refused":   {0, 0, refuseLists("Invalid", 422), 0, 0, ""},
		"lists at revisions failed": {999_000, 0, refuseLists("InternalError", 500), 999_000, 0, "how far back one can go is not known: list at 1000000: no list at a revision"},
	}
	for name, c := range cases {
		for _, object := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, object %t", name, object), func(t *testing.T) {
				api := newFakeAPI(t)
				api.rev = now - 1
				if object {
					api.put("a", "x", "")
				}
				api.rev, api.oldest, api.compacted = now, c.oldest, c.compacted
				if c.begin != nil {
					c.begin(api)
				}
				got := planned(t, api, things())
				if got.State != dynwatch.Ready || c.reason != "" != strings.HasPrefix(got.Reason, "retained history") {
					t.Errorf("state %s, reason %q", got.State, got.Reason)
				}
				slack := (now - c.etcdFrom) / 32
				if c.etcdFrom <= 1 {
					slack = 0
				}
				if got.EtcdFrom < c.etcdFrom || got.EtcdFrom > c.etcdFrom+slack {
					t.Errorf("etcd from %d, want %d to %d", got.EtcdFrom, c.etcdFrom, c.etcdFrom+slack)
				}
				watchFrom := c.watchFrom
				if api.nameless {
					watchFrom = got.EtcdFrom
				}
				if got.WatchFrom != watchFrom {
					t.Errorf("watch from %d, want %d", got.WatchFrom, watchFrom)
				}
				if n := api.requestsWith("resourceVersionMatch"); n > 25 {
					t.Errorf("%d lists at revisions", n)
				}
			})
		}
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
		all, err = dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{wanted}, 0)
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
		if err != nil {
			t.Fatal(err)
		}
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
			all, err := dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{things()}, 0)
			if err == nil || all.Targets != nil || !strings.Contains(err.Error(), api.server.URL) {
				t.Errorf("%v, plans: %+v", err, all)
			}
		})
	}
	if _, err := dynwatch.Plan(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}, nil, 0); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody listens: %v", err)
	}
	api := newFakeAPI(t)
	if _, err := dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{{}}, 0); err == nil || !strings.Contains(err.Error(), "the resource name is missing") {
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
	if _, err := dynwatch.Plan(ctx, api.config(), []dynwatch.Resource{things()}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
