package measured_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
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
	shareTenants = 9  // beside the greedy one, each with one small object
	shareObjects = 4  // of the greedy one, 0.92 MB each
	shareBefore  = 10 // of changes of the large objects while every sink keeps up: 37 MB
	shareRounds  = 16 // of changes of all objects: 59 MB; beyond 100 MB the file of the other sink is rotated
)

// TestBacklogStopsNobody: one of ten tenants changes large ConfigMaps all the time. While every sink keeps up, their
// history makes room, although it is larger than the journal. Then a webhook is down. The events of the nine others
// reach the other sink within 30 s, and the webhook gets all of them when it is back. It learns how many of the greedy
// tenant's it lacks. informd is ready again without a restart. E2E_OUTAGE_SECONDS is how long the webhook is down.
func TestBacklogStopsNobody(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	maps := client.Resource(e2e.ConfigMapKind().GVR)
	var namespaces []string
	for n := range shareTenants + 1 {
		namespaces = append(namespaces, fmt.Sprint("share-", n))
		e2e.CreateNamespace(t, client, namespaces[n])
	}
	greedy := namespaces[shareTenants]
	hook := e2e.StartHook(t)
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: fmt.Sprintf("- {resource: configmaps, mode: full, namespaces: [%s]}", strings.Join(namespaces, ", ")),
		Journal: e2e.LogJournal + ", maxBytes: 32MiB" + e2e.LongHistory,
		Sinks:   hook.Sink(),
	})
	d.Start()
	d.WaitForLive(shareTenants + 1)

	write := func(namespace, name, body string, n int) {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
			"data": map[string]any{"n": "0"}, "binaryData": map[string]any{"b": body},
		}}
		var err error
		if n == 0 {
			_, err = maps.Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		} else {
			_, err = maps.Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n), metav1.PatchOptions{})
		}
		e2e.Must(t, err)
	}
	large := base64.StdEncoding.EncodeToString(e2e.Noise(690_000)) // 0.92 MB in the object
	writeLarge := func(n int) {
		t.Helper()
		for k := range shareObjects {
			write(greedy, fmt.Sprint("large-", k), large, n)
		}
	}
	for n := range shareBefore { // history that every sink has read makes room
		writeLarge(n)
	}
	before := perTenant{greedy: shareBefore * shareObjects}
	e2e.Eventually(t, "all of it at the webhook", func() bool { return perNamespace(hook.Events(0), greedy) == before })
	hook.Set(func(e2e.Record) int { return http.StatusServiceUnavailable })
	var slowest time.Duration
	pace := time.NewTicker(time.Duration(e2e.Number(t, "E2E_OUTAGE_SECONDS", 15)) * time.Second / shareRounds)
	defer pace.Stop()
	for rounds := range shareRounds {
		writeLarge(shareBefore + rounds)
		began := time.Now()
		for _, namespace := range namespaces[:shareTenants] {
			write(namespace, "small", "", rounds)
		}
		want := (rounds + 1) * shareTenants
		e2e.Eventually(t, "the events of nine tenants", func() bool { return perNamespace(d.Records(), greedy).others >= want })
		slowest = max(slowest, time.Since(began))
		<-pace.C
	}
	if slowest > 30*time.Second {
		t.Errorf("events of other tenants took up to %v", slowest)
	}
	const greedyAll, othersAll = (shareBefore + shareRounds) * shareObjects, shareRounds * shareTenants
	e2e.Eventually(t, "the events of the greedy tenant", func() bool { return perNamespace(d.Records(), greedy).greedy == greedyAll })
	expectDropped(t, d, greedy)

	hook.Set(nil)
	e2e.Eventually(t, "the webhook has everything or knows that it lacks it", func() bool {
		got := perNamespace(hook.Events(0), greedy)
		return got.others == othersAll && got.greedy+got.trimmed >= greedyAll
	})
	d.WaitForLive(shareTenants + 1)
	if got := perNamespace(hook.Events(0), greedy); got.trimmed == 0 || got.greedy+got.trimmed != greedyAll {
		t.Errorf("of %d events of the greedy tenant the webhook got %d and lacks %d", greedyAll, got.greedy, got.trimmed)
	} else {
		t.Logf("of %d events of the greedy tenant the webhook got %d and lacks %d; others took at most %v",
			greedyAll, got.greedy, got.trimmed, slowest.Round(time.Millisecond))
	}
	if all := perNamespace(d.Records(), greedy); all.trimmed != 0 {
		t.Errorf("the sink that was up lacks %d events", all.trimmed)
	}
	if body, code, err := d.Get("/readyz"); code != 200 {
		t.Errorf("readyz: %d %s %v", code, body, err)
	}
}

// expectDropped fails unless status and a metric name the namespace, and no other.
func expectDropped(t *testing.T, d *e2e.Informd, namespace string) {
	t.Helper()
	var s struct {
		Journal struct{ Dropped map[string]uint64 }
	}
	body, _, err := d.Get("/status")
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil || len(s.Journal.Dropped) != 1 || s.Journal.Dropped[namespace] == 0 {
		t.Errorf("status names %v, want %s alone: %v", s.Journal.Dropped, namespace, err)
	}
	body, _, err = d.Get("/metrics")
	if want := fmt.Sprintf("informd_journal_dropped_total{namespace=%q}", namespace); err != nil || !strings.Contains(string(body), want) {
		t.Errorf("the metrics lack %s: %v", want, err)
	}
}

// perTenant counts the events of objects of tests, by tenant, and those that gaps declare.
type perTenant struct{ greedy, others, trimmed int }

func perNamespace(records []e2e.Record, greedy string) perTenant {
	var n perTenant
	seen := make(map[string]bool, len(records))
	for i := range records {
		r := &records[i]
		switch {
		case seen[r.ID]: // a sink may get an event again
		case r.Op == "gap":
			n.trimmed += int(r.Trimmed)
		case strings.HasPrefix(r.Name, "large-") && r.Namespace == greedy:
			n.greedy++
		case r.Name == "small":
			n.others++
		}
		seen[r.ID] = true
	}
	return n
}
