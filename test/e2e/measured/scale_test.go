package measured_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

const (
	// liveAgain is how long informd may take to watch again after a start with
	// many objects, all unchanged.
	liveAgain = 5 * time.Second
	restarts  = 3
)

// TestRestartWithManyObjects: with 100,000 objects in the journal, none of them
// changed, informd watches again at once and emits nothing.
func TestRestartWithManyObjects(t *testing.T) {
	objects := e2e.Number(t, "E2E_OBJECTS", 100_000)
	c := cluster.Start(t, cluster.Options{})
	began := time.Now()
	entry := e2e.StoreAccounts(t, c, objects, 1)
	t.Logf("%d objects created in %.1f s", objects, time.Since(began).Seconds())
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: entry, Journal: e2e.LogJournal})
	began = time.Now()
	d.Start()
	d.WaitForDelivery(objects + 2) // and the bounds of the snapshot
	t.Logf("first sync took %.1f s; RSS %.1f MiB, peak %.1f MiB, %.0f bytes on disk per object",
		time.Since(began).Seconds(), memory(d, "VmRSS"), memory(d, "VmHWM"), float64(d.DiskUse())/float64(objects))

	best := time.Hour // other processes may slow down any single one
	for range restarts {
		d.Stop()
		before := endOfFile(d)
		began := time.Now()
		d.Start()
		took := e2e.WaitAtOnce(t, "live", func() bool {
			s, err := d.Status()
			return err == nil && len(s.Targets) == 1 && s.Targets[0].State == "live" && s.Targets[0].Objects == objects
		}).Sub(began)
		t.Logf("live after %.2f s, with %.0f ms of CPU; RSS %.1f MiB, peak %.1f MiB",
			took.Seconds(), cpu(d).Seconds()*1000, memory(d, "VmRSS"), memory(d, "VmHWM"))
		best = min(best, took)
		d.WaitForLive(1)
		if after := endOfFile(d); after != before {
			t.Errorf("the file ended at %v, and ends at %v", before, after)
		}
	}
	if best > liveAgain {
		t.Errorf("live after %v at best, want at most %v", best, liveAgain)
	}

	w := e2e.NewWriter(dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())), e2e.Kind{
		GVR: schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, Kind: "ServiceAccount", Namespace: "many-0",
		Fields: func(int) map[string]any { return map[string]any{} },
	}, e2e.NewLedger(), 1)
	before := endOfFile(d)
	e2e.Must(t, w.Create(t.Context(), "one-more"))
	e2e.Eventually(t, "one more", func() bool { return endOfFile(d) != before })
	d.WaitForLive(1)
	if after := endOfFile(d); after.size-before.size > 2048 {
		t.Errorf("the file grew by %d bytes for one event", after.size-before.size)
	}
}

// fileEnd is where the file sink stands, over all of its files.
type fileEnd struct {
	files int
	size  int64
}

func endOfFile(d *e2e.Informd) (end fileEnd) {
	d.T.Helper()
	names, err := filepath.Glob(d.EventsPath() + "*")
	e2e.Must(d.T, err)
	for _, name := range names {
		info, err := os.Stat(name)
		e2e.Must(d.T, err)
		end.files++
		end.size += info.Size()
	}
	return end
}

// TestManyTargets: 300 targets start within seconds, and so they do after the API
// server was away; where the watch can go on there is no list.
func TestManyTargets(t *testing.T) {
	const targets, limit = 300, 15 * time.Second
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	namespaces := make([]string, targets)
	create := func(name string) {
		t.Helper()
		for _, namespace := range namespaces {
			k := e2e.ConfigMapKind()
			k.Namespace = namespace
			e2e.Must(t, e2e.NewWriter(client, k, e2e.NewLedger(), 1).Create(t.Context(), name))
		}
	}
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("many-%d", i)
		e2e.CreateNamespace(t, client, namespaces[i])
	}
	create("one")
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [" + strings.Join(namespaces, ", ") + "]}", Journal: e2e.LogJournal,
	})
	began := time.Now()
	d.Start()
	d.WaitForLive(targets)
	if took := time.Since(began); took > limit {
		t.Errorf("%d targets were live after %v, want at most %v", targets, took, limit)
	} else {
		t.Logf("%d targets were live after %v", targets, took)
	}
	events := len(d.Records())
	e2e.Must(t, c.APIServer(0).Kill())
	e2e.Must(t, c.APIServer(0).Start(t.Context()))
	began = time.Now()
	create("two") // shows that every watch works
	e2e.Eventually(t, "every target goes on", func() bool { return e2e.Count(d.Records()[events:], "added") == targets })
	d.WaitForLive(targets)
	if took := time.Since(began); took > limit {
		t.Errorf("after a restart of the API server the targets were live after %v, want at most %v", took, limit)
	} else {
		t.Logf("after a restart of the API server the targets were live after %v, the writes included", took)
	}
	if again := e2e.Count(d.Records()[events:], "snapshot"); again > 0 {
		t.Errorf("%d objects were announced again", again)
	}
}
