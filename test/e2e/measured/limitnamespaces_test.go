package measured_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// manyNamespaces is twice as many as Kubernetes claims to support.
const manyNamespaces = 10_000

// TestManyNamespaces: an object in each of 10,000 namespaces that a selector matches, and
// one that comes later, reach every sink.
func TestManyNamespaces(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	server := natsserver.Start(t, natsserver.Options{})
	storeNamespaces(t, e2e.Directly(t, c))
	d := e2e.StartLimited(t, c.Kubeconfig(), server.URL(), `- {resource: configmaps, namespaceSelector: "tenant=yes"}`, 100)
	var want []e2e.Arrival
	for i := range manyNamespaces {
		want = append(want, e2e.Arrival{Resource: "configmaps", Namespace: fmt.Sprint("tenant-", i), Name: "settings"})
	}
	e2e.Eventually(t, "all of them at the webhook", func() bool { return d.Hook.HasAll(want) })
	k := e2e.ConfigMapKind()
	k.Namespace = want[len(want)-1].Namespace
	if err := e2e.NewWriter(dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())), k, e2e.NewLedger(), 1).Create(t.Context(), "later"); err != nil {
		t.Fatal(err)
	}
	want = append(want, e2e.Arrival{Resource: "configmaps", Namespace: k.Namespace, Name: "later"})
	e2e.Eventually(t, "one more at the webhook", func() bool { return d.Hook.HasAll(want[manyNamespaces:]) })
	d.WaitForLive(1)
	d.Gather(t, server.URL())
	for sink, e := range d.Endpoints {
		e2e.Eventually(t, "all of them at "+sink, func() bool { return e.HasAll(want) })
		if _, mistakes := e.All(); len(mistakes) > 0 {
			t.Errorf("%s: %s", sink, mistakes[0])
		}
	}
	if len(d.Dead) > 0 {
		t.Errorf("%d queues have dead letters", len(d.Dead))
	}
}

// storeNamespaces puts namespaces with one object each into etcd.
func storeNamespaces(t *testing.T, put e2e.Putter) {
	t.Helper()
	created := time.Now().UTC().Format(time.RFC3339)
	e2e.InParallel(t, manyNamespaces, func(ctx context.Context, i int) error {
		name := fmt.Sprint("tenant-", i)
		namespace := map[string]any{"kind": "Namespace", "apiVersion": "v1", "status": map[string]any{"phase": "Active"}, "spec": map[string]any{}, "metadata": map[string]any{
			"name": name, "uid": uuid.NewUUID(), "creationTimestamp": created, "labels": map[string]any{"tenant": "yes"},
		}}
		if err := put(ctx, "/registry/namespaces/"+name, namespace); err != nil {
			return err
		}
		return put(ctx, "/registry/configmaps/"+name+"/settings", map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{
			"name": "settings", "namespace": name, "uid": uuid.NewUUID(), "creationTimestamp": created,
		}})
	})
}
