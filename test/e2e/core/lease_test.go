package core_test

import (
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// TestEventsUnderBothNames: of two entries for Events, which are served in two groups,
// the second one says what to do, and nothing comes twice.
func TestEventsUnderBothNames(t *testing.T) {
	const namespace = "quiet" // one that Kubernetes writes no Events to
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	e2e.CreateNamespace(t, client, namespace)
	d := e2e.StartInformd(t, c.Kubeconfig(), `
		- {resource: events, namespaces: [quiet]}
		- {group: events.k8s.io, resource: events}`, "")
	e2e.Eventually(t, "one is live, and the other one says why it is not", func() bool {
		s, err := d.Status()
		return err == nil && len(s.Targets) == 2 && s.Targets[0].State == "live" && s.Targets[1].State == "degraded" &&
			strings.Contains(s.Targets[1].Reason, "the resource is an alias of core/events, which has an earlier entry: remove one")
	})
	plan, _ := d.Plan(1)
	if p := plan["events.k8s.io/events"]; p.State != "degraded" || !strings.Contains(p.Reason, "core/events") {
		t.Errorf("plan %+v", p)
	}
	l, events := e2e.NewLedger(), []e2e.Kind{e2e.EventKind(namespace)}
	e2e.WriteAll(t, client, events, l, 30, 1)
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(events, d.Records(), l) })
	e2e.Check(t, events[0], d.Records(), l, client, e2e.Claim{})
	for _, r := range d.Records() {
		if r.Group != "" && r.UID != "" {
			t.Errorf("%s comes under the other name", r.ID)
		}
	}
}
