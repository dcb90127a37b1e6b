package informer_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"
)

// clusterFactory returns a factory that a Clusters takes over.
func clusterFactory(t *testing.T, api *fakeAPI) *informer.Factory {
	t.Helper()
	f, err := informer.NewFactory(api.config(), informer.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	return f
}

// recording adds a handler to each cluster that writes down what it gets, with the cluster.
func recording(t *testing.T, i *informer.ClusterInformer, seen *reconciled) {
	t.Helper()
	err := i.Setup(func(cluster string, i cache.SharedIndexInformer) error {
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { seen.add(cluster + " add " + nameOf(o)) },
			UpdateFunc: func(_, o any) { seen.add(cluster + " update " + nameOf(o)) },
			DeleteFunc: func(o any) { seen.add(cluster + " delete " + nameOf(o)) },
		})
		return err
	})
	must(t, err)
}

// found are the clusters and names of objects.
func found(t *testing.T, all []informer.ClusterObject, err error) []string {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	names := []string{}
	for _, o := range all {
		names = append(names, o.Cluster+" "+nameOf(o.Object))
	}
	return names
}

func TestClusters(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	east, west, north := newFakeAPI(t), newFakeAPI(t), newFakeAPI(t)
	labelled := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}}
	east.put("configmaps", "a", "one", labelled)
	west.put("configmaps", "a", "one", labelled)
	west.put("configmaps", "b", "two", nil)
	north.put("configmaps", "a", "three", labelled)
	clusters, err := informer.NewClusters(map[string]*informer.Factory{"west": clusterFactory(t, west), "east": clusterFactory(t, east)})
	must(t, err)
	view := clusters.ForResource(configs())
	var seen reconciled
	recording(t, view, &seen)
	if err := view.Setup(func(cluster string, i cache.SharedIndexInformer) error {
		return i.AddIndexers(cache.Indexers{"cluster": func(any) ([]string, error) { return []string{cluster}, nil }})
	}); err != nil {
		t.Fatal(err)
	}
	clusters.Start(t.Context())
	if diff := cmp.Diff(map[string]bool{"east": true, "west": true}, clusters.WaitForCacheSync(t.Context())); diff != "" {
		t.Errorf("synced (-want +got):\n%s", diff)
	}
	seen.wants(t, "east add one", "west add one", "west add two")

	list := func(selector string) []string {
		parsed, err := labels.Parse(selector)
		must(t, err)
		all, err := view.List(parsed)
		return found(t, all, err)
	}
	index := func(name, value string) []string {
		all, err := view.ByIndex(name, value)
		return found(t, all, err)
	}
	if diff := cmp.Diff([][]string{{"east one", "west one", "west two"}, {"east one", "west one"}, {"west two"}, {"west one", "west two"}},
		[][]string{list(""), list("app=x"), index(cache.NamespaceIndex, "b"), index("cluster", "west")}); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	if _, err := view.ByIndex("none", ""); err == nil || !strings.Contains(err.Error(), "cluster east") {
		t.Errorf("error %v of an unknown index", err)
	}
	key := informer.ClusterKey{Cluster: "west", NamespacedName: types.NamespacedName{Namespace: "b", Name: "two"}}
	if o, exists, err := view.Get(key); !exists || err != nil || nameOf(o) != "two" || key.String() != "west/b/two" {
		t.Errorf("%s is %v (%v)", key, o, err)
	}
	for _, cluster := range []string{"east", "south"} {
		key.Cluster = cluster
		if o, exists, err := view.Get(key); exists || err != nil {
			t.Errorf("%s is %v (%v)", key, o, err)
		}
	}

	must(t, clusters.Add("north", clusterFactory(t, north)))
	seen.wants(t, "north add three")
	clusters.WaitForCacheSync(t.Context())
	clusters.Remove("west")
	clusters.Remove("west")
	west.put("configmaps", "a", "later", nil)
	east.delete("configmaps", "a", "one")
	seen.wants(t, "east delete one")
	if diff := cmp.Diff([][]string{{"north three"}, {"north three"}}, [][]string{list(""), index("cluster", "north")}); diff != "" {
		t.Errorf("reads after clusters changed (-want +got):\n%s", diff)
	}
	clusters.Shutdown()
	if left := clusters.HasSynced(); len(left) != 0 {
		t.Errorf("clusters %v after the shutdown", left)
	}
	for _, call := range []string{"west delete one", "west delete two", "west add later"} {
		if seen.count(call) > 0 {
			t.Errorf("%q of a removed cluster", call)
		}
	}
	goleak.VerifyNone(t, ignore)
}

// TestClusterIsDown: the other one syncs, and can be read.
func TestClusterIsDown(t *testing.T) {
	up, down := newFakeAPI(t), newFakeAPI(t)
	repaired := down.Inject(informertest.Fault{Code: 503})
	down.put("configmaps", "a", "hidden", nil)
	up.put("configmaps", "a", "one", nil)
	clusters, err := informer.NewClusters(map[string]*informer.Factory{"up": clusterFactory(t, up), "down": clusterFactory(t, down)})
	must(t, err)
	defer clusters.Shutdown()
	view := clusters.ForMetadata(configs())
	var seen reconciled
	recording(t, view, &seen)
	clusters.Start(t.Context())
	seen.wants(t, "up add one")
	eventually(t, "one cluster is synced", func() bool {
		return cmp.Equal(map[string]bool{"up": true, "down": false}, clusters.HasSynced())
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if synced := clusters.WaitForCacheSync(ended); synced["down"] || !synced["up"] {
		t.Errorf("synced %v", synced)
	}
	all, err := view.List(labels.Everything())
	if diff := cmp.Diff([]string{"up one"}, found(t, all, err)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if _, is := all[0].Object.(*metav1.PartialObjectMetadata); !is {
		t.Errorf("object %T", all[0].Object)
	}
	repaired()
	seen.wants(t, "down add hidden")
}

func TestClustersCheckTheirArguments(t *testing.T) {
	if _, err := informer.NewClusters(map[string]*informer.Factory{"a": nil}); err == nil || !strings.Contains(err.Error(), "cluster a: a Factory is required") {
		t.Errorf("error %v without a factory", err)
	}
	api := newFakeAPI(t)
	clusters, err := informer.NewClusters(map[string]*informer.Factory{"a": clusterFactory(t, api)})
	must(t, err)
	if err := clusters.Add("a", clusterFactory(t, api)); err == nil || !strings.Contains(err.Error(), "remove it first") {
		t.Errorf("error %v for a second cluster of one name", err)
	}
	refuse := func(cluster string, _ cache.SharedIndexInformer) error { return fmt.Errorf("no %s", cluster) }
	if err := clusters.ForResource(pods()).Setup(refuse); err == nil || err.Error() != "set up cluster a: no a" {
		t.Errorf("error %v of a setup", err)
	}
	if err := clusters.Add("b", clusterFactory(t, api)); err == nil || err.Error() != "add cluster b: no b" {
		t.Errorf("error %v of a setup", err)
	}
}
