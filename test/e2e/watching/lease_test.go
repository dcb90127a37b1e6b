package watching_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestEventsExpireTogether: core Events hang on leases of etcd, and those on one
// lease end at one revision, which nothing else in Kubernetes does. Each of the
// deletions comes out.
func TestEventsExpireTogether(t *testing.T) {
	const n, namespace = 10, "expiring" // one that Kubernetes writes no Events to
	c := cluster.Start(t, cluster.Options{APIServerFlags: []string{"--event-ttl=30s"}})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	events := e2e.EventKind(namespace)
	e2e.CreateNamespace(t, client, namespace)
	d := e2e.StartInformd(t, c.Kubeconfig(), "- {resource: events, namespaces: ["+namespace+"]}", "")
	d.WaitForSync(1)
	w := e2e.NewWriter(client, events, e2e.NewLedger(), 1)
	for i := range n {
		e2e.Must(t, w.Create(t.Context(), fmt.Sprintf("event-%d", i)))
	}
	waitForObjects(d, n)
	for _, uid := range w.Alive {
		w.Ledger.Removed(events, uid) // by the lease
	}
	e2e.Eventually(t, "all deletions", func() bool { return e2e.Complete([]e2e.Kind{events}, d.Records(), w.Ledger) })
	e2e.Check(t, events, d.Records(), w.Ledger, client, e2e.Claim{})
	waitForObjects(d, 0)
	revisions := make(map[uint64]int)
	for _, r := range d.Records() {
		if r.Op == "deleted" {
			revisions[r.ResourceVersion]++
		}
	}
	// The API server takes a new lease after a second, so a slow machine has several.
	if len(revisions) > n/2 {
		t.Errorf("deletions per revision: %v: the Events did not end together, so that nothing is proven", revisions)
	}
}

// waitForObjects waits until informd's only target knows of n objects.
func waitForObjects(d *e2e.Informd, n int) {
	d.T.Helper()
	e2e.Eventually(d.T, fmt.Sprintf("%d objects", n), func() bool {
		s, err := d.Status()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].Objects == n
	})
}
