package watching_test

import (
	"slices"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// supportedServers are the oldest and the newest Kubernetes that informd supports,
// and API servers that read their objects in other ways than by default.
func supportedServers() map[string]cluster.Options {
	return map[string]cluster.Options{
		"oldest": {Version: cluster.Oldest},
		"newest": {Version: cluster.Newest},
		// This feature gate exists in old versions only.
		"oldest, consistent lists from etcd": {
			Version: cluster.Oldest, APIServerFlags: []string{"--feature-gates=ConsistentListFromCache=false"},
		},
		"newest, ConfigMaps without watch cache": {WatchCacheSizes: map[string]int{"configmaps": 0}},
		"newest, no watch cache":                 {APIServerFlags: []string{"--watch-cache=false"}},
		"newest, sharded lists and watches":      {APIServerFlags: []string{"--feature-gates=ShardedListAndWatch=true"}},
	}
}

// TestSupportedServers: on each of them informd delivers every change, over a
// restart of the API server and over a history that is gone.
func TestSupportedServers(t *testing.T) {
	for name, options := range supportedServers() {
		t.Run(name, func(t *testing.T) {
			r := e2e.StartFaultRigOn(t, "", options)
			isVersion(r, options.Version)
			r.Write(30)
			claims := e2e.Claim{Outages: []e2e.Outage{restarted(r), compacted(r)}}
			r.Write(30)
			r.Finish(t, claims)
		})
	}
}

// isVersion checks that the API server is of the version.
func isVersion(r *e2e.FaultRig, want string) {
	r.T.Helper()
	if want == "" {
		want = cluster.Newest
	}
	got, err := discovery.NewDiscoveryClientForConfigOrDie(r.Cluster.RESTConfig()).ServerVersion()
	if err != nil || got.GitVersion != "v"+want {
		r.T.Fatalf("the API server is %v, %v; want %s", got, err, want)
	}
}

// restarted kills the API server and starts it again, in the middle of changes.
func restarted(r *e2e.FaultRig) e2e.Outage {
	r.T.Helper()
	o := r.Cut()
	o.Whole = true
	r.RestartAPIServer(func() {})
	r.Write(20)
	r.CaughtUp()
	r.WaitForCursors()
	r.Restore(&o)
	return o
}

// compacted takes the history away from etcd and from the API server while informd
// has no watch, which it has to declare.
func compacted(r *e2e.FaultRig) e2e.Outage {
	r.T.Helper()
	before := make(map[string]int)
	for _, k := range r.Kinds {
		before[k.Target()] = len(r.Gaps(k))
	}
	o := r.Cut()
	r.Proxy.Set(func() { r.Proxy.RefuseWatches = true })
	r.Proxy.CutNow()
	r.Write(50)
	r.RestartAPIServer(r.Compact)
	r.Write(10)
	r.Proxy.Set(func() { r.Proxy.RefuseWatches = false })
	e2e.Eventually(r.T, "a gap for each kind", func() bool {
		return !slices.ContainsFunc(r.Kinds, func(k e2e.Kind) bool { return len(r.Gaps(k)) == before[k.Target()] })
	})
	r.Restore(&o)
	for _, k := range r.Kinds {
		if n := len(r.Gaps(k)) - before[k.Target()]; n != 1 {
			r.T.Errorf("%s: %d new gaps, want one", k.Target(), n)
		}
	}
	return o
}

// TestWildcardOnSupportedServers: one wildcard over everything that the oldest Kubernetes
// serves follows a custom resource that comes and goes.
func TestWildcardOnSupportedServers(t *testing.T) {
	r := e2e.StartFaultRigOn(t, "", cluster.Options{Version: cluster.Oldest})
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: r.Cluster.Kubeconfig(), Journal: e2e.LogJournal, Resources: everything})
	d.Start()
	want := served(t, r.Cluster.RESTConfig())
	e2e.Eventually(t, "everything is live", func() bool { return watchesAll(d, want) })
	later := e2e.CustomKind("planets", true)
	e2e.Installed(t, d, r.Cluster.RESTConfig(), later)
	kinds, l := []e2e.Kind{later}, e2e.NewLedger()
	e2e.WriteAll(t, r.Client, kinds, l, 20, 1)
	e2e.Eventually(t, "the custom resource is complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
	e2e.Check(t, later, d.Records(), l, r.Client, e2e.Claim{})
	e2e.EditDefinition(t, r.Client, later, func(spec map[string]any) { spec["preserveUnknownFields"] = false })
	removeDefinition(t, r.Client, later)
	e2e.Eventually(t, "its objects are deleted", func() bool { return allDeleted(d.Records(), later) })
	e2e.Eventually(t, "everything else is live", func() bool { return watchesAll(d, want) })
}

// allDeleted reports whether every object of the kind that was announced has a
// deletion.
func allDeleted(records []e2e.Record, k e2e.Kind) bool {
	alive := make(map[string]bool)
	for _, r := range records {
		if r.UID == "" || e2e.GroupOrCore(r.Group)+"/"+r.Resource != k.Target() {
			continue
		}
		if r.Op == "deleted" {
			delete(alive, r.UID)
		} else {
			alive[r.UID] = true
		}
	}
	return len(alive) == 0
}
