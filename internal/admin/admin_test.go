package admin_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(targets ...admin.Target) admin.Options {
	return admin.Options{
		Admin: config.Admin{Listen: "127.0.0.1:0"}, Version: "v1", Cluster: "c",
		Targets: func() []admin.Target { return targets },
		Sinks: func() []deliver.Status {
			return []deliver.Status{{Name: "dead", State: "retrying", LastError: "refused"}}
		},
		Journal:     func() admin.Journal { return admin.Journal{Type: "memory"} },
		DeadLetters: func() map[string]uint64 { return nil }, Config: func() *admin.Config { return nil },
		Metrics: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	}
}

func start(t *testing.T, o admin.Options) *admin.Server {
	t.Helper()
	s := admin.New(o)
	must(t, s.Start())
	t.Cleanup(func() {
		if err := s.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

func get(t *testing.T, s *admin.Server, path string) (int, string) {
	t.Helper()
	return request(t, http.DefaultClient, "GET "+path, s.Address(), nil)
}

func TestHealthAndReadiness(t *testing.T) {
	now, longAgo := time.Now(), time.Now().Add(-time.Hour)
	live := admin.Target{Target: "t", State: "live", Looked: true, Beat: now}
	cases := map[string]struct {
		target         admin.Target // without a name there is none
		healthy, ready int
		says           string
		journal        admin.Journal
	}{
		"live":                        {target: live, healthy: 200, ready: 200},
		"forbidden":                   {target: admin.Target{Target: "t", State: "forbidden", Looked: true, Beat: now}, healthy: 200, ready: 200},
		"not looked at yet":           {target: admin.Target{Target: "t", State: "starting", Beat: now}, healthy: 200, ready: 503, says: "target t is starting"},
		"hangs":                       {target: admin.Target{Target: "t", State: "live", Looked: true, Beat: longAgo}, healthy: 503, ready: 200, says: "target t has done nothing for 1h"},
		"held back by a full journal": {target: admin.Target{Target: "t", State: "live", Looked: true, Beat: longAgo, Blocked: true, BlockedSince: longAgo}, healthy: 200, ready: 503, says: "target t waits for the journal since 1h"},
		"waits for a moment":          {target: admin.Target{Target: "t", State: "live", Looked: true, Beat: now, Blocked: true, BlockedSince: now}, healthy: 200, ready: 200},
		"no targets":                  {healthy: 200, ready: 503},
		"stuck journal":               {target: live, healthy: 503, ready: 503, says: "journal: it does not answer", journal: admin.Journal{Problem: "it does not answer", Stuck: true, Unusable: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := options()
			if c.target.Target != "" {
				o = options(c.target)
			}
			o.Journal = func() admin.Journal { return c.journal }
			s := start(t, o)
			healthy, h := get(t, s, "/healthz")
			ready, r := get(t, s, "/readyz")
			if healthy != c.healthy || ready != c.ready || !strings.Contains(h+r, c.says) {
				t.Errorf("healthz %d %q, readyz %d %q", healthy, h, ready, r)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	s := start(t, options(admin.Target{Target: "core/pods", State: "waiting", Reason: "not served", ResourceVersion: 1 << 60, Events: 7, EventsPerSecond: 0.25}))
	code, body := get(t, s, "/status")
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK {
		t.Fatalf("%d %v: %s", code, err, body)
	}
	for _, want := range []string{`"target": "core/pods"`, `"reason": "not served"`, `"lastError": "refused"`, `"resourceVersion": "1152921504606846976"`, `"version": "v1"`, `"events": 7`, `"eventsPerSecond": 0.25`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	s := start(t, options())
	o := options()
	o.Listen = s.Address()
	err := admin.New(o).Start()
	if err == nil || !strings.Contains(err.Error(), "admin.listen") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second server: %v", err)
	}
}

func TestNoServer(t *testing.T) {
	o := options()
	o.Listen = ""
	s := admin.New(o)
	must(t, s.Start())
	if err := s.Shutdown(t.Context()); err != nil || s.Address() != "" {
		t.Errorf("%v, listens on %q", err, s.Address())
	}
}

func TestOtherRequestsAreRefused(t *testing.T) {
	s := start(t, options())
	if code, _ := get(t, s, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("pprof answers %d", code)
	}
}
