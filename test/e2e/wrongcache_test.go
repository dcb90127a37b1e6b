package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
)

// A kube-apiserver with a bug in its watch cache drops a change and a deletion: neither
// its watches nor its lists show them. The audit convicts it within one interval, and the
// stream gets what etcd holds.
func TestWrongWatchCacheIsConvicted(t *testing.T) {
	const interval = time.Minute
	c := cluster.Start(t, cluster.Options{SeededBug: true})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	configMaps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	for _, name := range []string{"changed", "deleted", "same"} {
		create(t, configMaps, name)
	}
	d := newInformd(t, setup{
		kubeconfig: c.Kubeconfig(), kubernetes: "auditEvery: " + interval.String(),
		resources: "- {resource: configmaps, namespaces: [default]}",
	})
	d.start()
	d.waitForSync(1)

	drop := func(name, event string) string {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"data":{"a":"1"}}`, cluster.DropAnnotation, event)
		o, err := configMaps.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return o.GetResourceVersion()
	}
	changed := drop("changed", "MODIFIED")
	drop("deleted", "DELETED")
	if err := configMaps.Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, configMaps, "later")
	began := time.Now()

	eventually(t, "the stream has the change and the deletion", func() bool {
		state := stateOf(d.records(), true)
		_, there := state["core/configmaps/deleted"]
		return !there && strings.HasSuffix(state["core/configmaps/changed"], " "+changed)
	})
	// An audit follows the one before by an interval, give or take a quarter.
	if took := time.Since(began); took > interval*5/4+15*time.Second {
		t.Errorf("convicted after %v", took)
	}
	checkConviction(t, d, changed)
}

// checkConviction looks at all that must name the API server, object and revision.
func checkConviction(t *testing.T, d *informd, changed string) {
	t.Helper()
	var s struct {
		Targets []struct {
			Mismatches []struct{ Server, Name, ResourceVersion, Listed string }
		}
	}
	body, _, err := d.get("/status")
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil || len(s.Targets) != 1 {
		t.Fatalf("status: %v\n%s", err, body)
	}
	named := make(map[string]bool)
	for _, m := range s.Targets[0].Mismatches {
		named[m.Name] = strings.HasPrefix(m.Server, "https://") && (m.Name == "changed") == (m.ResourceVersion == changed)
	}
	if !named["changed"] || !named["deleted"] || len(named) != 2 {
		t.Errorf("status: %+v", s.Targets[0].Mismatches)
	}
	metrics, _, err := d.get("/metrics")
	if err != nil || !strings.Contains(string(metrics), `informd_audit_mismatches_total{target="core/configmaps@default"}`) {
		t.Errorf("metrics: %v", err)
	}
	eventually(t, "the log names the object", func() bool {
		log := d.stderr.String()
		return strings.Contains(log, "watch cache is wrong") && strings.Contains(log, "name=changed") && strings.Contains(log, "resource_version="+changed)
	})
	out, code := d.command("verify")
	if code != 1 || !strings.Contains(out, "changed") || !strings.Contains(out, "restart that kube-apiserver") {
		t.Errorf("verify: exit code %d\n%s", code, out)
	}
}

func create(t *testing.T, client dynamic.ResourceInterface, name string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
	if _, err := client.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
