package watching_test

import (
	"fmt"
	"testing"
	"time"

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

// An object in etcd becomes unreadable, and an administrator deletes its key. No request for a
// revision between the two is ever answered, as etcd is not compacted. The resource goes on all the
// same: the deletion comes, and what is new.
func TestUnreadableObject(t *testing.T) {
	const (
		key = "/registry/configmaps/default/broken"
		// The API server reads its storage again after up to 34 s, an error lasts after a minute, and
		// the machine may be busy.
		bound = 5 * time.Minute
	)
	t.Parallel() // it waits for minutes
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	configMaps := client.Resource(e2e.ConfigMapKind().GVR).Namespace("default")
	for _, name := range []string{"broken", "same"} {
		e2e.CreateConfigMap(t, configMaps, name, nil)
	}
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}"})
	d.Start()
	d.WaitForSync(1)

	began := time.Now()
	e2e.Must(t, c.Put(t.Context(), key, "garbage"))
	<-time.After(5 * time.Second) // as long as the repair takes
	e2e.Must(t, c.Delete(t.Context(), key))
	e2e.CreateConfigMap(t, configMaps, "later", nil)
	there := func(name string) bool {
		_, ok := stateOf(d.Records(), true)["core/configmaps/"+name]
		return ok
	}
	for time.Since(began) < bound && (there("broken") || !there("later")) {
		<-time.After(100 * time.Millisecond)
	}
	if there("broken") || !there("later") || !there("same") {
		t.Fatalf("after %v: broken %t, later %t, same %t", time.Since(began), there("broken"), there("later"), there("same"))
	}
	t.Logf("complete after %v", time.Since(began))
	e2e.CreateConfigMap(t, configMaps, "live", nil)
	e2e.Eventually(t, "a live event", func() bool { return there("live") })
}
