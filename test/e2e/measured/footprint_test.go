package measured_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

const (
	idleTargets = 50
	// idleLimitMiB is for what informd allocates, and idleTotalMiB for the mapped pages of its binary
	// as well. Of these the kernel maps 25 to 30 MiB, depending on how it caches the file.
	idleLimitMiB = 14
	idleTotalMiB = 45
	manyPods     = 20_000
	podsLimitMiB = 80
	podUpdates   = 2_000
	podBytes     = 8_500 // as the API server shows it

	hungTargets  = 20
	hungUpdates  = 6_000
	hungLimitMiB = 100
)

// TestFootprint measures informd's memory where it must not grow: with many
// empty targets, with many large objects, and behind a sink that hangs. The figures are logged; those of
// CPU time are for orientation only.
func TestFootprint(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))

	t.Run("idle", func(t *testing.T) {
		var namespaces []string
		for i := range idleTargets {
			namespaces = append(namespaces, fmt.Sprintf("empty-%d", i))
		}
		d := e2e.StartInformd(t, c.Kubeconfig(), fmt.Sprintf("- {resource: configmaps, namespaces: [%s]}", strings.Join(namespaces, ", ")), "")
		d.WaitForDelivery(2 * idleTargets) // the bounds of a snapshot each
		own := memoryAtRest(d, "RssAnon", idleLimitMiB)
		total := memoryAtRest(d, "VmRSS", idleTotalMiB)
		t.Logf("%d empty targets: RSS %.1f MiB, of that %.1f MiB without files", idleTargets, total, own)
		if own > idleLimitMiB || total > idleTotalMiB {
			t.Errorf("RSS %.1f MiB, of that %.1f MiB without files; want at most %d and %d", total, own, idleTotalMiB, idleLimitMiB)
		}
	})

	t.Run("many pods", func(t *testing.T) {
		size := createPods(t, client, manyPods)
		if size < podBytes {
			t.Fatalf("a pod has %d bytes, want at least %d", size, podBytes)
		}
		d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: "- {resource: pods}", Journal: e2e.LogJournal})
		d.Start()
		withManyPods(d, client, size)
	})

	t.Run("sink hangs", func(t *testing.T) { behindHungSink(t, c, client) })
}

// withManyPods waits for the pods, changes some, and holds the memory to the limit.
func withManyPods(d *e2e.Informd, client dynamic.Interface, size int) {
	d.T.Helper()
	d.WaitForDelivery(manyPods + 2) // and the bounds of the snapshot
	synced := cpu(d)
	d.T.Logf("%d pods of %d bytes: RSS %.1f MiB, peak %.1f MiB, sync took %.0f us of CPU per object, %.0f bytes on disk",
		manyPods, size, memory(d, "VmRSS"), memory(d, "VmHWM"), synced.Seconds()*1e6/manyPods, float64(d.DiskUse())/manyPods)
	updatePods(d.T, client, podUpdates)
	d.WaitForDelivery(manyPods + 2 + podUpdates)
	rss := memoryAtRest(d, "VmRSS", podsLimitMiB)
	d.T.Logf("%d updates: %.0f us of CPU per event; RSS %.1f MiB, peak %.1f MiB",
		podUpdates, (cpu(d)-synced).Seconds()*1e6/podUpdates, rss, memory(d, "VmHWM"))
	if rss > podsLimitMiB {
		d.T.Errorf("RSS %.1f MiB, want at most %d", rss, podsLimitMiB)
	}
}

// behindHungSink writes 120 MB to many targets while one sink takes nothing, with a journal of 64 MiB: so
// much that the limit would not hold if anything buffered without a bound. The other sink gets all.
func behindHungSink(t *testing.T, c *cluster.Cluster, client dynamic.Interface) {
	t.Helper()
	namespaces := make([]string, hungTargets)
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("hung-%d", i)
		e2e.CreateNamespace(t, client, namespaces[i])
	}
	d := e2e.StartInformd(t, c.Kubeconfig(), fmt.Sprintf("- {resource: configmaps, namespaces: [%s]}", strings.Join(namespaces, ", ")),
		fmt.Sprintf("- {name: hung, type: webhook, url: %q, timeout: 60s}", hangingServer(t)))
	d.WaitForSync(hungTargets)
	idle := memory(d, "VmRSS")
	updateConfigMaps(t, client, namespaces, hungUpdates)
	var s e2e.Status
	e2e.Eventually(t, "the other sink has everything", func() bool {
		var err error
		s, err = d.Status()
		for _, sink := range s.Sinks {
			if sink.Name == "all" && sink.LagEvents > 0 {
				return false
			}
		}
		return err == nil && s.Journal.Blocked == 0
	})
	rss, peak := memory(d, "VmRSS"), memory(d, "VmHWM")
	t.Logf("%d of %d bytes in the journal: RSS %.1f MiB, peak %.1f MiB, %.1f MiB before", s.Journal.Bytes, s.Journal.CapacityBytes, rss, peak, idle)
	if peak > hungLimitMiB {
		t.Errorf("RSS was up to %.1f MiB, want at most %d", peak, hungLimitMiB)
	}
}

// hangingServer is the URL of a server that accepts requests and answers none of
// them until the test ends.
func hangingServer(t *testing.T) string {
	t.Helper()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	return server.URL
}

// updateConfigMaps makes n writes of about 20 KB, to ten objects per namespace.
func updateConfigMaps(t *testing.T, client dynamic.Interface, namespaces []string, n int) {
	t.Helper()
	content := strings.Repeat("configuration = \"value\"\n", 800)
	e2e.InParallel(t, n, func(ctx context.Context, i int) error {
		o := map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("config-%d", i/len(namespaces)%10)},
			"data": map[string]any{"content": content, "n": strconv.Itoa(i)},
		}
		_, err := client.Resource(e2e.ConfigMapKind().GVR).Namespace(namespaces[i%len(namespaces)]).
			Apply(ctx, fmt.Sprintf("config-%d", i/len(namespaces)%10), &unstructured.Unstructured{Object: o}, metav1.ApplyOptions{FieldManager: "e2e", Force: true})
		return err
	})
}

// memoryAtRest is memory once that is within the limit, at the latest after [Patience]: a busy
// machine is slow in taking back what a garbage collection has freed.
func memoryAtRest(d *e2e.Informd, field string, limit float64) float64 {
	d.T.Helper()
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for end := time.Now().Add(e2e.Patience); ; {
		if mib := memory(d, field); mib <= limit || time.Now().After(end) {
			return mib
		}
		<-poll.C
	}
}

// memory reads a field of /proc/<pid>/status, in MiB.
func memory(d *e2e.Informd, field string) float64 {
	d.T.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Cmd.Process.Pid))
	e2e.Must(d.T, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			e2e.Must(d.T, err)
			return float64(kib) / 1024
		}
	}
	d.T.Fatalf("no %s in %s", field, b)
	return 0
}

// cpu is the user and system time that informd has used.
func cpu(d *e2e.Informd) time.Duration {
	d.T.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Cmd.Process.Pid))
	e2e.Must(d.T, err)
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] { // utime and stime, see proc(5)
		n, err := strconv.Atoi(f)
		e2e.Must(d.T, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// createPods makes n pods, one namespace, and returns the size of one in bytes
// as the API server shows it.
func createPods(t *testing.T, client dynamic.Interface, n int) int {
	t.Helper()
	pods := client.Resource(e2e.PodKind().GVR).Namespace("default")
	e2e.InParallel(t, n, func(ctx context.Context, i int) error {
		_, err := pods.Create(ctx, largePod(i), metav1.CreateOptions{})
		return err
	})
	one, err := pods.Get(t.Context(), "pod-0", metav1.GetOptions{})
	e2e.Must(t, err)
	b, err := one.MarshalJSON()
	e2e.Must(t, err)
	return len(b)
}

// updatePods changes n pods.
func updatePods(t *testing.T, client dynamic.Interface, n int) {
	t.Helper()
	pods := client.Resource(e2e.PodKind().GVR).Namespace("default")
	e2e.InParallel(t, n, func(ctx context.Context, i int) error {
		patch := fmt.Sprintf(`{"status":{"phase":"Running","message":"%d"}}`, i)
		_, err := pods.Patch(ctx, fmt.Sprintf("pod-%d", i), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	})
}

// largePod is a pod as real clusters have them: at least podBytes with its managed
// fields.
func largePod(i int) *unstructured.Unstructured {
	var env []any
	for j := range 56 {
		env = append(env, map[string]any{"name": fmt.Sprintf("SETTING_%02d", j), "value": fmt.Sprintf("https://service-%d.example.com/%d", j, i)})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name":   fmt.Sprintf("pod-%d", i),
			"labels": map[string]any{"app": fmt.Sprintf("app-%d", i%100), "tier": "backend"},
		},
		"spec": map[string]any{"containers": []any{
			map[string]any{"name": "main", "image": "registry.example.com/team/app:1.2.3", "env": env},
			map[string]any{"name": "side", "image": "registry.example.com/team/side:4.5.6"},
		}},
	}}
}
