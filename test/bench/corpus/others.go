package corpus

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	sampleShapes = 16
	// Group is the group of [Samples].
	Group = "bench.informd.dev"
)

// Samples are small custom resources, about 1 KB.
func Samples() (*Corpus, error) {
	r := rand.New(rand.NewPCG(1, 26))
	var objects []any
	for n := range sampleShapes {
		s := map[string]any{
			"apiVersion": Group + "/v1", "kind": "Sample",
			"metadata": identified(fmt.Sprintf("sample-%02d-", n)),
			"spec": map[string]any{
				"interval": fmt.Sprintf("%ds", 10+r.IntN(50)), "replicas": r.IntN(10), "site": pick(r, "hall-1", "hall-2", "roof"),
				"thresholds": map[string]any{"low": r.IntN(20), "high": 60 + r.IntN(40)},
			},
			"status": map[string]any{
				"observedGeneration": 1, "ready": true, "phase": pick(r, "Measuring", "Idle"),
				"conditions": []any{map[string]any{
					"type": "Ready", "status": "True", "reason": "Connected", "lastTransitionTime": began(), "message": "the device answers",
				}},
			},
		}
		m, err := managedBy("sample-controller", "", s, "metadata", "spec", "status")
		if err != nil {
			return nil, err
		}
		metadata := identified(fmt.Sprintf("sample-%02d-", n))
		metadata.ManagedFields = []metav1.ManagedFieldsEntry{m}
		s["metadata"] = metadata
		objects = append(objects, s)
	}
	return build(schema.GroupVersionResource{Group: Group, Version: "v1", Resource: "samples"}, "Sample", false, objects)
}

// ConfigMaps are large objects: 100 KB to 1 MB.
func ConfigMaps() (*Corpus, error) {
	r := rand.New(rand.NewPCG(100, 26))
	var objects []any
	for n, size := range []int{100 << 10, 150 << 10, 250 << 10, 400 << 10, 600 << 10, 1000 << 10} {
		c := &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: identified(fmt.Sprintf("dashboards-%d-", n)),
			Data:       make(map[string]string),
		}
		for file := 0; size > 0; file++ {
			var b strings.Builder
			for limit := min(size, 48<<10); b.Len() < limit; {
				fmt.Fprintf(&b, "panel %d: {\"title\": \"requests\", \"query\": \"rate(http_requests_total{job=\\\"%s\\\"}[%dm])\", \"unit\": \"ops\"}\n",
					r.IntN(1000), pick(r, "api", "web", "worker"), 1+r.IntN(10))
			}
			c.Data[fmt.Sprintf("dashboard-%02d.json", file)] = b.String()
			size -= b.Len()
		}
		m, err := managedBy("helm", "", c, "metadata", "data")
		if err != nil {
			return nil, err
		}
		c.ManagedFields = []metav1.ManagedFieldsEntry{m}
		objects = append(objects, c)
	}
	return build(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true, objects)
}
