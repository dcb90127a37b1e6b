package measured_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
	storeNamespaces(t, e2e.Directly(t, c), manyNamespaces)
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

// matchingNamespaces are of the many; each second of changeTime, changesPerSecond of all have another label.
const (
	matchingNamespaces = 3_000
	changesPerSecond   = 10
	changeTime         = 30 * time.Second
)

// TestNamespacesThatChange: while namespaces of 10,000 begin and cease to match, the last event of each object says
// in the end whether its namespace matches. CPU, memory and requests are logged.
func TestNamespacesThatChange(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	storeNamespaces(t, e2e.Directly(t, c), matchingNamespaces)
	proxy := e2e.StartProxy(t, c.RESTConfig())
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: proxy.Kubeconfig, Resources: `- {resource: configmaps, namespaceSelector: "tenant=yes"}`, Journal: e2e.LogJournal})
	d.Start()
	d.WaitForSync(1)
	before, requests, began := cpu(d), requestsOf(proxy), time.Now()
	t.Logf("first list: %v of CPU, %d requests, RSS %.1f MiB, peak %.1f", before, requests, memory(d, "VmRSS"), memory(d, "VmHWM"))
	matches := flipNamespaces(t, dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())))
	e2e.Eventually(t, "the last events say which namespaces match", func() bool { return maps.Equal(matches, matchOf(d.Records())) })
	t.Logf("%d changes in %v: %v of CPU, %d requests, RSS %.1f MiB, peak %.1f", changesPerSecond*int(changeTime.Seconds()),
		time.Since(began).Round(time.Second), cpu(d)-before, requestsOf(proxy)-requests, memory(d, "VmRSS"), memory(d, "VmHWM"))
}

func requestsOf(p *e2e.Proxy) (n int) {
	p.Set(func() { n = p.Requests })
	return n
}

// flipNamespaces changes the labels of random namespaces, and returns which match in the end.
func flipNamespaces(t *testing.T, client dynamic.Interface) map[string]bool {
	t.Helper()
	matches := make(map[string]bool)
	for i := range matchingNamespaces {
		matches[fmt.Sprint("tenant-", i)] = true
	}
	random, tick := rand.New(rand.NewPCG(1, 2)), time.NewTicker(time.Second/changesPerSecond)
	defer tick.Stop()
	for range changesPerSecond * int(changeTime.Seconds()) {
		<-tick.C
		name, label := fmt.Sprint("tenant-", random.IntN(manyNamespaces)), "yes"
		if matches[name] {
			label = "no"
		}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"tenant":%q}}}`, label)
		_, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).
			Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		e2e.Must(t, err)
		if matches[name] = label == "yes"; !matches[name] {
			delete(matches, name)
		}
	}
	return matches
}

// matchOf returns the namespaces whose object the last event does not take away.
func matchOf(records []e2e.Record) map[string]bool {
	matches := make(map[string]bool)
	for _, r := range records {
		switch r.Op {
		case "snapshot", "added", "modified", "entered":
			matches[r.Namespace] = true
		case "deleted", "left":
			delete(matches, r.Namespace)
		}
	}
	return matches
}

// storeNamespaces puts namespaces with one object each into etcd, of which the first match.
func storeNamespaces(t *testing.T, put e2e.Putter, matching int) {
	t.Helper()
	created := time.Now().UTC().Format(time.RFC3339)
	e2e.InParallel(t, manyNamespaces, func(ctx context.Context, i int) error {
		name, label := fmt.Sprint("tenant-", i), "yes"
		if i >= matching {
			label = "no"
		}
		namespace := map[string]any{"kind": "Namespace", "apiVersion": "v1", "status": map[string]any{"phase": "Active"}, "spec": map[string]any{}, "metadata": map[string]any{
			"name": name, "uid": uuid.NewUUID(), "creationTimestamp": created, "labels": map[string]any{"tenant": label},
		}}
		if err := put(ctx, "/registry/namespaces/"+name, namespace); err != nil {
			return err
		}
		return put(ctx, "/registry/configmaps/"+name+"/settings", map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{
			"name": "settings", "namespace": name, "uid": uuid.NewUUID(), "creationTimestamp": created,
		}})
	})
}
