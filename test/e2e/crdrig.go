package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/informd/informd/test/cluster"
)

// Installed creates the custom resource definition and returns how long it took
// informd to be live from the moment at which discovery served it.
func Installed(t *testing.T, d *Informd, config *rest.Config, k Kind) time.Duration {
	t.Helper()
	documents := discovery.NewDiscoveryClientForConfigOrDie(Fast(config))
	client := dynamic.NewForConfigOrDie(Fast(config))
	Create(t, CustomResourceDefinitions(client), k.Definition())
	served := WaitAtOnce(t, k.Target()+" served", func() bool {
		list, err := documents.ServerResourcesForGroupVersion(k.GVR.GroupVersion().String())
		return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.GVR.Resource })
	})
	return WaitAtOnce(t, k.Target()+" live", func() bool { return d.StateOf(k) == "live" }).Sub(served)
}

// CRDRig is one API server, a workload on one custom kind, and an informd that
// watches it.
type CRDRig struct {
	T       *testing.T
	cluster *cluster.Cluster
	Client  dynamic.Interface
	Kind    Kind
	Ledger  *Ledger
	seed    uint64
	Informd *Informd
}

// StartCRDRig starts them, with that journal, and waits until informd is live.
func StartCRDRig(t *testing.T, journal string) *CRDRig {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	r := &CRDRig{
		T: t, cluster: c, Client: dynamic.NewForConfigOrDie(Fast(c.RESTConfig())), Kind: CustomKind("gadgets", false), Ledger: NewLedger(),
	}
	r.Kind.Install(t, r.Client)
	r.Write(20)
	r.Ledger.Begin()
	r.Informd = NewInformd(t, Setup{Kubeconfig: c.Kubeconfig(), Journal: journal, Resources: Entries(r.Kind)})
	r.Informd.Start()
	r.Informd.WaitForSync(1)
	r.Informd.WaitForLive(1)
	return r
}

// Entries are the resources of custom kinds, in whatever version.
func Entries(kinds ...Kind) string {
	var list strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&list, "- {group: %s, resource: %s}\n", k.GVR.Group, k.GVR.Resource)
	}
	return list.String()
}

// Write makes n random changes.
func (r *CRDRig) Write(n int) {
	r.T.Helper()
	r.seed++
	WriteAll(r.T, r.Client, []Kind{r.Kind}, r.Ledger, n, r.seed)
}

// Load changes the kind at a steady pace until the returned function is called.
func (r *CRDRig) Load() (end func()) {
	r.T.Helper()
	r.seed++
	return LoadAll(r.T, r.Client, []Kind{r.Kind}, r.Ledger, r.seed)
}

// Records are those of the file sink, without what came again after a crash.
func (r *CRDRig) Records() []Record {
	r.T.Helper()
	records, _ := Once(r.T, r.Informd.Records())
	return records
}

// CaughtUp waits until informd has delivered all that was written.
func (r *CRDRig) CaughtUp() {
	r.T.Helper()
	Eventually(r.T, "caught up", func() bool { return Complete([]Kind{r.Kind}, r.Records(), r.Ledger) })
}

// Edit changes the custom resource definition.
func (r *CRDRig) Edit(change func(spec map[string]any)) {
	r.T.Helper()
	EditDefinition(r.T, r.Client, r.Kind, change)
}

// EditDefinition changes the custom resource definition of a custom kind.
func EditDefinition(t *testing.T, client dynamic.Interface, k Kind, change func(spec map[string]any)) {
	t.Helper()
	crds := CustomResourceDefinitions(client)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		crd, err := crds.Get(t.Context(), k.Definition().GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec, _, err := unstructured.NestedMap(crd.Object, "spec")
		if err != nil {
			return err
		}
		change(spec)
		crd.Object["spec"] = spec
		_, err = crds.Update(t.Context(), crd, metav1.UpdateOptions{})
		return err
	})
	Must(t, err)
}

// Outage begins one: what was delivered so far.
func (r *CRDRig) Outage() Outage {
	r.T.Helper()
	return BeginOutage(r.Kind, r.Records())
}

// BeginOutage begins an outage of a kind, of which etcd keeps the history: so much was delivered before.
func BeginOutage(k Kind, records []Record) Outage {
	o := Outage{Before: make(map[string]uint64), Whole: true}
	for _, x := range records {
		if !x.Control() && GroupOrCore(x.Group)+"/"+x.Resource == k.Target() {
			o.Before[k.Target()] = max(o.Before[k.Target()], x.ResourceVersion-1)
		}
	}
	return o
}

// Finish holds everything that came out to the claim that history may have been
// looked up since o began, but none of it lost.
func (r *CRDRig) Finish(o Outage, c Claim) {
	r.T.Helper()
	r.CaughtUp()
	r.Informd.WaitForLive(1)
	revision, err := r.cluster.Revision(r.T.Context())
	Must(r.T, err)
	o.After = uint64(revision)
	c.Outages, c.LastStates = []Outage{o}, true
	r.T.Logf("%d events, %d gaps", len(r.Records()), Count(r.Records(), "gap"))
	Check(r.T, r.Kind, r.Records(), r.Ledger, r.Client, c)
}
