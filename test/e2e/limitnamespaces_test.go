package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

// manyNamespaces is twice as many as Kubernetes claims to support.
const manyNamespaces = 10_000

// TestManyNamespaces: an object in each of 10,000 namespaces that a selector matches, and
// one that comes later, reach every sink.
func TestManyNamespaces(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	server := natsserver.Start(t, natsserver.Options{})
	storeNamespaces(t, directly(t, c))
	d := startLimited(t, c.Kubeconfig(), server.URL(), `- {resource: configmaps, namespaceSelector: "tenant=yes"}`, 100)
	var want []arrival
	for i := range manyNamespaces {
		want = append(want, arrival{Resource: "configmaps", Namespace: fmt.Sprint("tenant-", i), Name: "settings"})
	}
	eventually(t, "all of them at the webhook", func() bool { return d.hook.hasAll(want) })
	k := configMapKind()
	k.namespace = want[len(want)-1].Namespace
	if err := newWriter(dynamic.NewForConfigOrDie(fast(c.RESTConfig())), k, newLedger(), 1).create(t.Context(), "later"); err != nil {
		t.Fatal(err)
	}
	want = append(want, arrival{Resource: "configmaps", Namespace: k.namespace, Name: "later"})
	eventually(t, "one more at the webhook", func() bool { return d.hook.hasAll(want[manyNamespaces:]) })
	d.waitForLive(1)
	d.gather(t, server.URL())
	for sink, e := range d.endpoints {
		eventually(t, "all of them at "+sink, func() bool { return e.hasAll(want) })
		if _, mistakes := e.all(); len(mistakes) > 0 {
			t.Errorf("%s: %s", sink, mistakes[0])
		}
	}
	if len(d.dead) > 0 {
		t.Errorf("%d queues have dead letters", len(d.dead))
	}
}

// storeNamespaces puts namespaces with one object each into etcd.
func storeNamespaces(t *testing.T, put putter) {
	t.Helper()
	created := time.Now().UTC().Format(time.RFC3339)
	inParallel(t, manyNamespaces, func(ctx context.Context, i int) error {
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
