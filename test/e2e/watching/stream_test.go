package watching_test

import (
	"fmt"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// writesPerKind is how many random changes each kind gets.
const writesPerKind = 200

// TestEveryRevisionOnce: built-ins and custom resources, namespaced and
// cluster-scoped, whole and as metadata, changing at random: the stream of the
// file sink and the one that an independent client reads from JetStream both
// hold every revision once, in order, with unbroken chains and right ends.
func TestEveryRevisionOnce(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	bus := natsserver.Start(t, natsserver.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	kinds := []e2e.Kind{e2e.PodKind(), e2e.ConfigMapKind(), e2e.CustomKind("gadgets", false), e2e.CustomKind("planets", true)}
	for _, k := range kinds[2:] {
		k.Install(t, client)
	}
	l := e2e.NewLedger()
	e2e.WriteAll(t, client, kinds, l, 20, 1) // what exists before: snapshots
	l.Begin()

	runs := map[string]struct{ mode, journal string }{
		"full":        {"full", e2e.LogJournal},
		"metadata":    {"metadata", e2e.LogJournal},
		"full-memory": {"full", ""},
	}
	daemons := make(map[string]*e2e.Informd)
	for name, run := range runs {
		daemons[name] = e2e.NewInformd(t, e2e.Setup{
			Kubeconfig: c.Kubeconfig(), Journal: run.journal,
			Resources: fmt.Sprintf(`
				- {resource: pods, mode: %[1]s}
				- {resource: configmaps, mode: %[1]s, namespaces: [default]}
				- {group: e2e.example.com, resource: gadgets, mode: %[1]s}
				- {group: e2e.example.com, resource: planets, mode: %[1]s}`, run.mode),
			Sinks: fmt.Sprintf(`- {name: bus, type: nats, servers: [%q], subjectPrefix: %[2]s, stream: %[2]s, create: {historyPerObject: 0}}`, bus.URL(), name),
		})
		daemons[name].Start()
	}
	for _, d := range daemons {
		d.WaitForSync(len(kinds))
	}
	e2e.WriteAll(t, client, kinds, l, writesPerKind, 2)

	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			d := daemons[name]
			e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(kinds, d.Records(), l) })
			fromBus := func() []e2e.Record { return e2e.ReadStream(t, bus.URL(), name) }
			e2e.Eventually(t, "JetStream complete", func() bool { return e2e.Complete(kinds, fromBus(), l) })
			for sink, records := range map[string][]e2e.Record{"file": d.Records(), "jetstream": fromBus()} {
				for _, k := range kinds {
					t.Run(sink+" "+k.GVR.Resource, func(t *testing.T) {
						e2e.Check(t, k, records, l, client, e2e.Claim{MetadataOnly: run.mode == "metadata"})
					})
				}
				if n := e2e.Count(records, "synced"); n != len(kinds) {
					t.Errorf("%s: %d synced records, want %d", sink, n, len(kinds))
				}
			}
		})
	}
}
