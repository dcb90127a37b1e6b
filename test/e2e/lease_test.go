package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

func eventKind(namespace string) kind {
	return kind{
		gvr: schema.GroupVersionResource{Version: "v1", Resource: "events"}, kind: "Event", namespace: namespace,
		fields: func(n int) map[string]any {
			return map[string]any{
				"involvedObject": map[string]any{"kind": "Pod", "namespace": namespace, "name": fmt.Sprintf("pod-%d", n)},
				"reason":         "Tested", "message": "something happened", "type": "Normal",
			}
		},
		patch: func(n int) string { return fmt.Sprintf(`{"message":"it happened %d times"}`, n) },
	}
}

// TestEventsUnderBothNames: of two entries for Events, which are served in two groups,
// the second one says what to do, and nothing comes twice.
func TestEventsUnderBothNames(t *testing.T) {
	const namespace = "quiet" // one that Kubernetes writes no Events to
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	createNamespace(t, client, namespace)
	d := startInformd(t, c.Kubeconfig(), `
		- {resource: events, namespaces: [quiet]}
		- {group: events.k8s.io, resource: events}`, "")
	eventually(t, "one is live, and the other one says why it is not", func() bool {
		s, err := d.status()
		return err == nil && len(s.Targets) == 2 && s.Targets[0].State == "live" && s.Targets[1].State == "degraded" &&
			strings.Contains(s.Targets[1].Reason, "the resource is an alias of core/events, which has an earlier entry: remove one")
	})
	plan, _ := d.plan(1)
	if p := plan["events.k8s.io/events"]; p.State != "degraded" || !strings.Contains(p.Reason, "core/events") {
		t.Errorf("plan %+v", p)
	}
	l, events := newLedger(), []kind{eventKind(namespace)}
	writeAll(t, client, events, l, 30, 1)
	eventually(t, "stream complete", func() bool { return complete(events, d.records(), l) })
	check(t, events[0], d.records(), l, client, claim{})
	for _, r := range d.records() {
		if r.Group != "" && r.UID != "" {
			t.Errorf("%s comes under the other name", r.ID)
		}
	}
}

// TestEventsExpireTogether: core Events hang on leases of etcd, and those on one
// lease end at one revision, which nothing else in Kubernetes does. Each of the
// deletions comes out.
func TestEventsExpireTogether(t *testing.T) {
	const n, namespace = 10, "expiring" // one that Kubernetes writes no Events to
	c := cluster.Start(t, cluster.Options{APIServerFlags: []string{"--event-ttl=30s"}})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	events := eventKind(namespace)
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
	// The API server takes a new lease after a second, so a slow machine has several.
	if len(revisions) > n/2 {
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
