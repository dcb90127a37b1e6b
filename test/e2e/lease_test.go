package e2e_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// TestEventsExpireTogether: core Events hang on leases of etcd, and those on one
// lease end at one revision, which nothing else in Kubernetes does. Each of the
// deletions comes out.
func TestEventsExpireTogether(t *testing.T) {
	const n, namespace = 10, "expiring" // one that Kubernetes writes no Events to
	c := cluster.Start(t, cluster.Options{APIServerFlags: []string{"--event-ttl=30s"}})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	events := kind{
		gvr: schema.GroupVersionResource{Version: "v1", Resource: "events"}, kind: "Event", namespace: namespace,
		fields: func(n int) map[string]any {
			return map[string]any{
				"involvedObject": map[string]any{"kind": "Pod", "namespace": namespace, "name": fmt.Sprintf("pod-%d", n)},
				"reason":         "Tested", "message": "something happened", "type": "Normal",
			}
		},
	}
	createNamespace(t, client, namespace)
	d := startInformd(t, c.Kubeconfig(), "- {resource: events, namespaces: ["+namespace+"]}", "")
	d.waitForSync(1)
	w := newWriter(client, events, newLedger(), 1)
	for i := range n {
		if err := w.create(t.Context(), fmt.Sprintf("event-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	d.waitForObjects(n)
	for _, uid := range w.alive {
		w.ledger.removed(events, uid) // by the lease
	}
	eventually(t, "all deletions", func() bool { return complete([]kind{events}, d.records(), w.ledger) })
	check(t, events, d.records(), w.ledger, client, claim{})
	d.waitForObjects(0)
	revisions := make(map[uint64]int)
	for _, r := range d.records() {
		if r.Op == "deleted" {
			revisions[r.ResourceVersion]++
		}
	}
	if len(revisions) != 1 {
		t.Errorf("deletions per revision: %v: the Events did not end together, so that nothing is proven", revisions)
	}
}

// waitForObjects waits until informd's only target knows of n objects.
func (d *informd) waitForObjects(n int) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%d objects", n), func() bool {
		s, err := d.status()
		return err == nil && len(s.Targets) == 1 && s.Targets[0].Objects == n
	})
}
