package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/informd/informd/test/cluster"
)

// crdRig is one API server, a workload on one custom kind, and an informd that
// watches it.
type crdRig struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  dynamic.Interface
	kind    kind
	ledger  *ledger
	seed    uint64
	informd *informd
}

func startCRDRig(t *testing.T, journal string) *crdRig {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	r := &crdRig{
		t: t, cluster: c, client: dynamic.NewForConfigOrDie(fast(c.RESTConfig())), kind: customKind("gadgets", false), ledger: newLedger(),
	}
	r.kind.install(t, r.client)
	r.write(20)
	r.ledger.begin()
	r.informd = newInformd(t, setup{kubeconfig: c.Kubeconfig(), journal: journal, resources: entries(r.kind)})
	r.informd.start()
	r.informd.waitForSync(1)
	r.informd.waitForLive(1)
	return r
}

// entries are the resources of custom kinds, in whatever version.
func entries(kinds ...kind) string {
	var list strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&list, "- {group: %s, resource: %s}\n", k.gvr.Group, k.gvr.Resource)
	}
	return list.String()
}

func (r *crdRig) write(n int) {
	r.t.Helper()
	r.seed++
	writeAll(r.t, r.client, []kind{r.kind}, r.ledger, n, r.seed)
}

func (r *crdRig) load() (end func()) {
	r.t.Helper()
	r.seed++
	return loadAll(r.t, r.client, []kind{r.kind}, r.ledger, r.seed)
}

// records are those of the file sink, without what came again after a crash.
func (r *crdRig) records() []record {
	r.t.Helper()
	records, _ := once(r.t, r.informd.records())
	return records
}

func (r *crdRig) caughtUp() {
	r.t.Helper()
	eventually(r.t, "caught up", func() bool { return complete([]kind{r.kind}, r.records(), r.ledger) })
}

// edit changes the custom resource definition.
func (r *crdRig) edit(change func(spec map[string]any)) {
	r.t.Helper()
	editDefinition(r.t, r.client, r.kind, change)
}

// editDefinition changes the custom resource definition of a custom kind.
func editDefinition(t *testing.T, client dynamic.Interface, k kind, change func(spec map[string]any)) {
	t.Helper()
	crds := customResourceDefinitions(client)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		crd, err := crds.Get(t.Context(), k.definition().GetName(), metav1.GetOptions{})
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
	if err != nil {
		t.Fatal(err)
	}
}

// removeDefinition deletes the custom resource definition of a custom kind and waits
// until it is gone, its objects with it.
func removeDefinition(t *testing.T, client dynamic.Interface, k kind) {
	t.Helper()
	crds, name := customResourceDefinitions(client), k.definition().GetName()
	if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitAtOnce(t, name+" gone", func() bool {
		_, err := crds.Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// outage begins one: what was delivered so far.
func (r *crdRig) outage() outage {
	r.t.Helper()
	return beginOutage(r.kind, r.records())
}

// beginOutage begins an outage of a kind, of which etcd keeps the history: so much was delivered before.
func beginOutage(k kind, records []record) outage {
	o := outage{before: make(map[string]uint64), whole: true}
	for _, x := range records {
		if !x.control() && groupOrCore(x.Group)+"/"+x.Resource == k.target() {
			o.before[k.target()] = max(o.before[k.target()], x.ResourceVersion-1)
		}
	}
	return o
}

// finish holds everything that came out to the claim that history may have been
// looked up since o began, but none of it lost.
func (r *crdRig) finish(o outage, c claim) {
	r.t.Helper()
	r.caughtUp()
	r.informd.waitForLive(1)
	revision, err := r.cluster.Revision(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	o.after = uint64(revision)
	c.outages, c.lastStates = []outage{o}, true
	r.t.Logf("%d events, %d gaps", len(r.records()), count(r.records(), "gap"))
	check(r.t, r.kind, r.records(), r.ledger, r.client, c)
}

// createAgain deletes the custom resource definition, creates it again, and returns
// the uids of the objects that went with it.
func (r *crdRig) createAgain() (old []string) {
	r.t.Helper()
	list, err := r.client.Resource(r.kind.gvr).List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, o := range list.Items {
		old = append(old, string(o.GetUID()))
		r.ledger.removed(r.kind, o.GetUID())
	}
	if len(old) == 0 {
		r.t.Fatal("there are no objects")
	}
	began := time.Now()
	removeDefinition(r.t, r.client, r.kind)
	r.kind.install(r.t, r.client)
	r.t.Logf("%d objects; deleted and served again within %v", len(old), time.Since(began).Round(time.Millisecond))
	return old
}
