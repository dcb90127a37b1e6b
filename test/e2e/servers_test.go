package e2e_test

import (
	"slices"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/informd/informd/test/cluster"
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
			r := startFaultRigOn(t, "", options)
			r.isVersion(options.Version)
			r.write(30)
			claims := claim{outages: []outage{r.restarted(), r.compacted()}}
			r.write(30)
			r.finish(t, claims)
		})
	}
}

// isVersion checks that the API server is of the version.
func (r *faultRig) isVersion(want string) {
	r.t.Helper()
	if want == "" {
		want = cluster.Newest
	}
	got, err := discovery.NewDiscoveryClientForConfigOrDie(r.cluster.RESTConfig()).ServerVersion()
	if err != nil || got.GitVersion != "v"+want {
		r.t.Fatalf("the API server is %v, %v; want %s", got, err, want)
	}
}

// restarted kills the API server and starts it again, in the middle of changes.
func (r *faultRig) restarted() outage {
	r.t.Helper()
	o := r.cut()
	o.whole = true
	r.restartAPIServer(func() {})
	r.write(20)
	r.caughtUp()
	r.waitForCursors()
	r.restore(&o)
	return o
}

// compacted takes the history away from etcd and from the API server while informd
// has no watch, which it has to declare.
func (r *faultRig) compacted() outage {
	r.t.Helper()
	before := make(map[string]int)
	for _, k := range r.kinds {
		before[k.target()] = len(r.gaps(k))
	}
	o := r.cut()
	r.proxy.set(func() { r.proxy.refuseWatches = true })
	r.proxy.cutNow()
	r.write(50)
	r.restartAPIServer(r.compact)
	r.write(10)
	r.proxy.set(func() { r.proxy.refuseWatches = false })
	eventually(r.t, "a gap for each kind", func() bool {
		return !slices.ContainsFunc(r.kinds, func(k kind) bool { return len(r.gaps(k)) == before[k.target()] })
	})
	r.restore(&o)
	return o
}

// TestWildcardOnSupportedServers: one wildcard over everything that the oldest and
// the newest Kubernetes serve follows a custom resource that comes and goes.
func TestWildcardOnSupportedServers(t *testing.T) {
	for _, version := range []string{cluster.Oldest, cluster.Newest} {
		t.Run(version, func(t *testing.T) {
			r := startFaultRigOn(t, "", cluster.Options{Version: version})
			d := newInformd(t, setup{kubeconfig: r.cluster.Kubeconfig(), journal: logJournal, resources: everything})
			d.start()
			want := served(t, r.cluster.RESTConfig())
			eventually(t, "everything is live", func() bool { return d.watchesAll(want) })
			later := customKind("planets", true)
			installed(t, d, r.cluster.RESTConfig(), later)
			kinds, l := []kind{later}, newLedger()
			writeAll(t, r.client, kinds, l, 20, 1)
			eventually(t, "the custom resource is complete", func() bool { return complete(kinds, d.records(), l) })
			check(t, later, d.records(), l, r.client, claim{})
			editDefinition(t, r.client, later, func(spec map[string]any) { spec["preserveUnknownFields"] = false })
			removeDefinition(t, r.client, later)
			eventually(t, "its objects are deleted", func() bool { return allDeleted(d.records(), later) })
			eventually(t, "everything else is live", func() bool { return d.watchesAll(want) })
		})
	}
}

// allDeleted reports whether every object of the kind that was announced has a
// deletion.
func allDeleted(records []record, k kind) bool {
	alive := make(map[string]bool)
	for _, r := range records {
		if r.UID == "" || groupOrCore(r.Group)+"/"+r.Resource != k.target() {
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
