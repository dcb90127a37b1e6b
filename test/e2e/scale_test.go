package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
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
	objects := number(t, "E2E_OBJECTS", 100_000)
	c := cluster.Start(t, cluster.Options{})
	began := time.Now()
	storeConfigMaps(t, c, objects)
	t.Logf("%d objects created in %.1f s", objects, time.Since(began).Seconds())
	d := newInformd(t, setup{kubeconfig: c.Kubeconfig(), resources: "- {resource: configmaps, namespaces: [many]}", journal: logJournal})
	began = time.Now()
	d.start()
	d.waitForDelivery(objects + 2) // and the bounds of the snapshot
	t.Logf("first sync took %.1f s; RSS %.1f MiB, peak %.1f MiB, %.0f bytes on disk per object",
		time.Since(began).Seconds(), d.memory("VmRSS"), d.memory("VmHWM"), float64(d.diskUse())/float64(objects))

	best := time.Hour // other processes may slow down any single one
	for range restarts {
		d.stop()
		before := d.fileEnd()
		began := time.Now()
		d.start()
		poll := time.NewTicker(10 * time.Millisecond)
		for end := began.Add(patience); ; {
			if s, err := d.status(); err == nil && len(s.Targets) == 1 && s.Targets[0].State == "live" && s.Targets[0].Objects == objects {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("not live within %v", patience)
			}
			<-poll.C
		}
		poll.Stop()
		took := time.Since(began)
		t.Logf("live after %.2f s, with %.0f ms of CPU; RSS %.1f MiB, peak %.1f MiB",
			took.Seconds(), d.cpu().Seconds()*1000, d.memory("VmRSS"), d.memory("VmHWM"))
		best = min(best, took)
		d.waitForLive(1)
		if after := d.fileEnd(); after != before {
			t.Errorf("the file ended at %v, and ends at %v", before, after)
		}
	}
	if best > liveAgain {
		t.Errorf("live after %v at best, want at most %v", best, liveAgain)
	}

	w := newWriter(dynamic.NewForConfigOrDie(fast(c.RESTConfig())), manyKind(), newLedger(), 1)
	before := d.fileEnd()
	if err := w.create(t.Context(), "one-more"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one more", func() bool { return d.fileEnd() != before })
	d.waitForLive(1)
	if after := d.fileEnd(); after.size-before.size > 2048 {
		t.Errorf("the file grew by %d bytes for one event", after.size-before.size)
	}
}

func manyKind() kind {
	k := configMapKind()
	k.namespace = "many"
	return k
}

// putter puts an object into etcd.
type putter func(ctx context.Context, key string, object map[string]any) error

// directly returns a function that puts objects into etcd, as the API server would do it
// but several times as fast.
func directly(t *testing.T, c *cluster.Cluster) putter {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context, key string, object map[string]any) error {
		value, err := json.Marshal(object)
		if err != nil {
			return err
		}
		body, err := json.Marshal(map[string]string{
			"key": base64.StdEncoding.EncodeToString([]byte(key)), "value": base64.StdEncoding.EncodeToString(value),
		})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.EtcdEndpoint()+"/v3/kv/put", bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
}

// storeConfigMaps puts objects of 1 KB into etcd.
func storeConfigMaps(t *testing.T, c *cluster.Cluster, n int) {
	t.Helper()
	put := directly(t, c)
	content := strings.Repeat("configuration = \"value\"\n", 30)
	created := time.Now().UTC().Format(time.RFC3339)
	metadata := func(name string) map[string]any {
		return map[string]any{"name": name, "uid": uuid.NewUUID(), "creationTimestamp": created}
	}
	namespace := map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": metadata("many"), "spec": map[string]any{}, "status": map[string]any{"phase": "Active"}}
	if err := put(t.Context(), "/registry/namespaces/many", namespace); err != nil {
		t.Fatal(err)
	}
	inParallel(t, n, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("object-%d", i)
		m := metadata(name)
		m["namespace"] = "many"
		return put(ctx, "/registry/configmaps/many/"+name, map[string]any{
			"kind": "ConfigMap", "apiVersion": "v1", "metadata": m, "data": map[string]any{"content": content},
		})
	})
}

// fileEnd is where the file sink stands, over all of its files.
type fileEnd struct {
	files int
	size  int64
}

func (d *informd) fileEnd() (end fileEnd) {
	d.t.Helper()
	names, err := filepath.Glob(d.eventsPath() + "*")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			d.t.Fatal(err)
		}
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
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	namespaces := make([]string, targets)
	create := func(name string) {
		t.Helper()
		for _, namespace := range namespaces {
			k := configMapKind()
			k.namespace = namespace
			if err := newWriter(client, k, newLedger(), 1).create(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range namespaces {
		namespaces[i] = fmt.Sprintf("many-%d", i)
		createNamespace(t, client, namespaces[i])
	}
	create("one")
	d := newInformd(t, setup{
		kubeconfig: c.Kubeconfig(), resources: "- {resource: configmaps, namespaces: [" + strings.Join(namespaces, ", ") + "]}", journal: logJournal,
	})
	began := time.Now()
	d.start()
	d.waitForLive(targets)
	if took := time.Since(began); took > limit {
		t.Errorf("%d targets were live after %v, want at most %v", targets, took, limit)
	} else {
		t.Logf("%d targets were live after %v", targets, took)
	}
	events := len(d.records())
	if err := c.APIServer(0).Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.APIServer(0).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	create("two") // shows that every watch works
	eventually(t, "every target goes on", func() bool { return count(d.records()[events:], "added") == targets })
	d.waitForLive(targets)
	if took := time.Since(began); took > limit {
		t.Errorf("after a restart of the API server the targets were live after %v, want at most %v", took, limit)
	} else {
		t.Logf("after a restart of the API server the targets were live after %v, the writes included", took)
	}
	if again := count(d.records()[events:], "snapshot"); again > 0 {
		t.Errorf("%d objects were announced again", again)
	}
}
