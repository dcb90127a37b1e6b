package delivery_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/otelcollector"
)

// recordsOf are the records of a k8sobjects receiver, or of a sink with its shape, by type, UID and
// revision of the object.
func recordsOf(t *testing.T, requests []*logs.LogsData) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, data := range requests {
		for _, group := range data.GetResourceLogs() {
			for _, r := range group.GetScopeLogs()[0].GetLogRecords() {
				body, ok := plainValue(t, r.GetBody()).(map[string]any)
				if !ok {
					t.Fatalf("a body is no map: %v", r)
				}
				object, _ := body["object"].(map[string]any)
				metadata, ok := object["metadata"].(map[string]any)
				if !ok {
					t.Fatalf("a body has no object: %v", r)
				}
				// What informd leaves out, as a kubectl get does.
				delete(metadata, "managedFields")
				if annotations, ok := metadata["annotations"].(map[string]any); ok {
					delete(annotations, e2e.LastApplied)
				}
				attributes := map[string]any{}
				for _, a := range r.GetAttributes() {
					attributes[a.GetKey()] = plainValue(t, a.GetValue())
				}
				key := fmt.Sprint(body["type"], " ", metadata["uid"], " ", metadata["resourceVersion"])
				all[key] = map[string]any{"attributes": attributes, "body": body, "time": r.GetTimeUnixNano(), "severity": r.GetSeverityText()}
			}
		}
	}
	return all
}

// plainValue is a value as encoding/json would decode it.
func plainValue(t *testing.T, v *common.AnyValue) any {
	t.Helper()
	switch v := v.GetValue().(type) {
	case *common.AnyValue_KvlistValue:
		all := map[string]any{}
		for _, one := range v.KvlistValue.GetValues() {
			all[one.GetKey()] = plainValue(t, one.GetValue())
		}
		return all
	case *common.AnyValue_ArrayValue:
		all := []any{}
		for _, one := range v.ArrayValue.GetValues() {
			all = append(all, plainValue(t, one))
		}
		return all
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	}
	return nil
}

// TestRecordsOfTheReceiver: beside the Collector's k8sobjects receiver on the same cluster, a sink
// with its shape sends the same records, so that it can take the receiver's place.
func TestRecordsOfTheReceiver(t *testing.T) {
	r := e2e.NewRig(t)
	t.Setenv("KUBECONFIG", r.Cluster.Kubeconfig())
	var objects []map[string]any
	for _, k := range r.Kinds {
		one := map[string]any{"name": k.GVR.Resource, "mode": "watch"}
		if k.Namespace != "" {
			one["namespaces"] = []string{k.Namespace}
		}
		objects = append(objects, one)
	}
	list, err := json.Marshal(objects)
	e2e.Must(t, err)
	collector := otelcollector.Start(t, otelcollector.Options{Objects: string(list)})
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: r.Cluster.Kubeconfig(), Resources: r.Resources("full"),
		Sinks: fmt.Sprintf("- {name: logs, type: otlp, url: %q, protocol: grpc, shape: k8sobjects, match: [{control: false}]}", collector.GRPC()),
	})
	d.Start()
	d.WaitForSync(len(r.Kinds))
	watched := func() map[string]any { return recordsOf(t, collector.Watched(t)) }
	e2e.Eventually(t, "a receiver that watches each kind", func() bool {
		r.Write(1)
		seen := map[string]bool{}
		for _, one := range watched() {
			record, _ := one.(map[string]any)
			attributes, _ := record["attributes"].(map[string]any)
			seen[fmt.Sprint(attributes["k8s.resource.name"])] = true
		}
		return len(seen) == len(r.Kinds)
	})
	r.Write(100)
	var ours, theirs map[string]any
	e2e.Eventually(t, "the same records", func() bool {
		theirs = watched()
		ours = recordsOf(t, collector.Received(t))
		for key := range theirs {
			if ours[key] == nil {
				return false
			}
		}
		return e2e.Complete(r.Kinds, d.Records(), r.Ledger)
	})
	t.Logf("%d records of the receiver, %d of informd, which began before it", len(theirs), len(ours))
	if len(theirs) < 200 {
		t.Errorf("the receiver has %d records only", len(theirs))
	}
	for key, want := range theirs {
		if diff := cmp.Diff(want, ours[key]); diff != "" {
			t.Fatalf("%s (-receiver +informd):\n%s", key, diff)
		}
	}
}
