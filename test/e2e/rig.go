package e2e

import (
	"fmt"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

// Rig is a cluster, a nats-server, four kinds of objects, and a ledger of what was
// written to them.
type Rig struct {
	T       *testing.T
	Cluster *cluster.Cluster
	Nats    *natsserver.Server
	Client  dynamic.Interface
	Kinds   []Kind
	Ledger  *Ledger
	seed    uint64
}

// NewRig starts the servers and writes what exists before any informd does.
func NewRig(t *testing.T) *Rig {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	r := &Rig{
		T: t, Cluster: c, Nats: natsserver.Start(t, natsserver.Options{}), Client: dynamic.NewForConfigOrDie(Fast(c.RESTConfig())),
		Kinds: []Kind{PodKind(), ConfigMapKind(), CustomKind("gadgets", false), CustomKind("planets", true)}, Ledger: NewLedger(),
	}
	for _, k := range r.Kinds[2:] {
		k.Install(t, r.Client)
	}
	r.Write(20)
	r.Ledger.Begin()
	return r
}

// Resources are the entries of the rig's kinds.
func (r *Rig) Resources(mode string) string {
	return fmt.Sprintf(`
		- {resource: pods, mode: %[1]s}
		- {resource: configmaps, mode: %[1]s, namespaces: [default]}
		- {group: e2e.example.com, resource: gadgets, mode: %[1]s}
		- {group: e2e.example.com, resource: planets, mode: %[1]s}`, mode)
}

// Setup is that of an informd on the rig's kinds, with that journal and the sink bus.
func (r *Rig) Setup(journal string) Setup {
	return Setup{Kubeconfig: r.Cluster.Kubeconfig(), Resources: r.Resources("full"), Sinks: BusSink(r.Nats.URL()), Journal: journal}
}

// Write makes n random changes to each kind.
func (r *Rig) Write(n int) {
	r.T.Helper()
	r.seed++
	WriteAll(r.T, r.Client, r.Kinds, r.Ledger, n, r.seed)
}

// Load changes all kinds at a steady pace until the returned function is called.
func (r *Rig) Load() (end func()) {
	r.T.Helper()
	r.seed++
	return LoadAll(r.T, r.Client, r.Kinds, r.Ledger, r.seed)
}

// Finish waits until everything that was written is in the records and in the
// stream of the sink bus, and holds both to the claim.
func (r *Rig) Finish(c Claim, records func() []Record) {
	r.T.Helper()
	Eventually(r.T, "files complete", func() bool { return Complete(r.Kinds, records(), r.Ledger) })
	fromBus := func() []Record { return ReadStream(r.T, r.Nats.URL(), BusStream) }
	Eventually(r.T, "JetStream complete", func() bool { return Complete(r.Kinds, fromBus(), r.Ledger) })
	inFile, repeats := Once(r.T, records())
	inStream := fromBus()
	r.T.Logf("%d events in the files, %d of them repeated there; %d in JetStream", len(inFile), repeats, len(inStream))
	for _, k := range r.Kinds {
		r.T.Run("file "+k.GVR.Resource, func(t *testing.T) { Check(t, k, inFile, r.Ledger, r.Client, c) })
		r.T.Run("jetstream "+k.GVR.Resource, func(t *testing.T) { Check(t, k, inStream, r.Ledger, r.Client, c) })
	}
}
