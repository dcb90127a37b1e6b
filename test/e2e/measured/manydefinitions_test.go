package measured_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/bench/corpus"
	"github.com/informd/informd/test/bench/replay"
	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

const (
	// manyDefinitions is how many CustomResourceDefinitions a large platform has, and
	// manyReplayed how many resources the replay server has.
	manyDefinitions, manyReplayed = 2000, 5000
	// perGroup is how many of them are in one group.
	perGroup = 20
	// manySynced is how long informd may take until all are live.
	manySynced = time.Minute
	// manyMiB bounds the memory with 2,000 resources, and idleWatchKiB that of each watch
	// above what informd needs in any case.
	manyMiB, idleWatchKiB, idleMiB = 200, 64, 40
	// manyChanged is how many resources are changed, beside the first and the last.
	manyChanged = 50
)

// TestManyDefinitions: one wildcard over 2,000 CustomResourceDefinitions of a real API
// server is synced within a minute, in 200 MiB, and misses no change.
func TestManyDefinitions(t *testing.T) {
	n := e2e.Number(t, "E2E_DEFINITIONS", manyDefinitions)
	c := cluster.Start(t, cluster.Options{})
	began := time.Now()
	storeDefinitions(t, c, n)
	waitForDefinitions(t, c.RESTConfig(), n)
	t.Logf("%d definitions are served after %.1f s", n, time.Since(began).Seconds())
	best := time.Hour // other processes may slow down any single start
	for start := range 2 {
		t.Run(fmt.Sprint("start ", start), func(t *testing.T) {
			d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: `- {group: "*.many.example.com", resource: "*"}`, Journal: e2e.LogJournal})
			d.Start()
			best = min(best, watchesMany(d, n))
			if rss := memory(d, "VmRSS"); rss > manyMiB {
				t.Errorf("RSS %.1f MiB, want at most %d", rss, manyMiB)
			}
			client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
			bringsChanges(d, n, func(i int) string {
				gvr := definitionNumber(i)
				created, err := client.Resource(gvr).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": gvr.GroupVersion().String(), "kind": kindOf(gvr),
					"metadata": map[string]any{"generateName": "one-"}, "spec": map[string]any{"n": int64(i)},
				}}, metav1.CreateOptions{})
				e2e.Must(t, err)
				return fmt.Sprintf("%s:%s", created.GetUID(), created.GetResourceVersion())
			})
			d.Stop()
		})
	}
	if best > manySynced {
		t.Errorf("%d targets were live after %v at best, want at most %v", n, best, manySynced)
	}
}

// TestManyReplayedResources: one wildcard over 5,000 resources of the replay server.
func TestManyReplayedResources(t *testing.T) {
	n := e2e.Number(t, "E2E_REPLAYED", manyReplayed)
	pods, err := corpus.Pods()
	e2e.Must(t, err)
	s, err := replay.New(replay.Options{Corpus: pods, Objects: 1, Kinds: n})
	e2e.Must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	e2e.Must(t, s.WriteKubeconfig(kubeconfig))
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: kubeconfig, Resources: `- {group: "*.kinds.example.com", resource: "*"}`})
	d.Start()
	if took := watchesMany(d, n); took > manySynced {
		t.Errorf("%d targets were live after %v, want at most %v", n, took, manySynced)
	}
	if rss := memory(d, "VmRSS"); rss > idleMiB+float64(n)*idleWatchKiB/1024 {
		t.Errorf("RSS %.1f MiB, want at most %d KiB for each of %d watches and %d MiB", rss, idleWatchKiB, n, idleMiB)
	}
	bringsChanges(d, n, func(i int) string {
		rv := s.Touch(i)
		return fmt.Sprintf("4d3a1f7e-0c55-4c1a-9a53-2f9f4f1%05d:%d", i, rv)
	})
	d.Stop()
}

// watchesMany waits until n targets are live, and returns how long that took.
func watchesMany(d *e2e.Informd, n int) time.Duration {
	d.T.Helper()
	began := time.Now()
	e2e.Eventually(d.T, fmt.Sprintf("%d targets live", n), func() bool {
		s, err := d.Status()
		return err == nil && s.TargetStates["live"] == n && len(s.Targets) == n
	})
	took := time.Since(began)
	d.WaitForSync(n)
	d.T.Logf("%d targets were live after %.1f s; RSS %.1f MiB, peak %.1f MiB; %.1f s of CPU",
		n, took.Seconds(), memory(d, "VmRSS"), memory(d, "VmHWM"), cpu(d).Seconds())
	return took
}

// bringsChanges changes some of n resources, the first and the last among them, and waits
// for the events. Change returns the id of the event.
func bringsChanges(d *e2e.Informd, n int, change func(i int) (id string)) {
	d.T.Helper()
	random := rand.New(rand.NewPCG(5, 6))
	numbers := append(random.Perm(n)[:min(manyChanged, n)], 0, n-1)
	began := time.Now()
	want := make(map[string]bool)
	for _, i := range numbers {
		want[change(i)] = true
	}
	e2e.Eventually(d.T, "the changes arrive", func() bool {
		for _, r := range d.Records() {
			delete(want, r.ID)
		}
		return len(want) == 0
	})
	d.T.Logf("%d changes arrived %.1f s after the first write", len(numbers), time.Since(began).Seconds())
}

// definitionNumber is a custom resource.
func definitionNumber(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: fmt.Sprintf("g%03d.many.example.com", i/perGroup), Version: "v1", Resource: fmt.Sprintf("many%05ds", i)}
}

func kindOf(gvr schema.GroupVersionResource) string {
	return strings.ToUpper(gvr.Resource[:1]) + strings.TrimSuffix(gvr.Resource[1:], "s")
}

// storeDefinitions puts established CustomResourceDefinitions into etcd.
func storeDefinitions(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	put := e2e.Directly(t, c)
	created := time.Now().UTC().Format(time.RFC3339)
	e2e.InParallel(t, n, func(ctx context.Context, i int) error {
		gvr := definitionNumber(i)
		k := e2e.Kind{GVR: gvr, Kind: kindOf(gvr), Namespace: "default"}
		definition := k.Definition().Object
		name := gvr.Resource + "." + gvr.Group
		definition["metadata"] = map[string]any{"name": name, "uid": uuid.NewUUID(), "creationTimestamp": created, "generation": int64(1)}
		spec, ok := definition["spec"].(map[string]any)
		if !ok {
			return fmt.Errorf("%s has no spec", name)
		}
		spec["conversion"] = map[string]any{"strategy": "None"}
		definition["status"] = map[string]any{
			"acceptedNames": spec["names"], "storedVersions": []string{"v1"},
			"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": created},
				map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": created},
			},
		}
		return put(ctx, "/registry/apiextensions.k8s.io/customresourcedefinitions/"+name, definition)
	})
}

// waitForDefinitions waits until discovery has n custom resources.
func waitForDefinitions(t *testing.T, config *rest.Config, n int) {
	t.Helper()
	client := discovery.NewDiscoveryClientForConfigOrDie(e2e.Fast(config))
	found := 0
	for end := time.Now().Add(2 * e2e.Patience); ; {
		_, lists, err := client.ServerGroupsAndResources()
		if found = 0; err == nil {
			for _, list := range lists {
				if strings.Contains(list.GroupVersion, ".many.example.com/") {
					found += len(slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool { return strings.Contains(r.Name, "/") }))
				}
			}
		}
		if found == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("discovery has %d of %d custom resources: %v", found, n, err)
		}
		<-time.After(500 * time.Millisecond)
	}
}
