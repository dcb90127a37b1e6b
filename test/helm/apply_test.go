package helm_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/test/applied"
)

// TestApply applies each good value file by server-side apply: a dry run, for real, and
// again without a change. The namespaces enforce the restricted level of Pod Security, and the
// API server accepts the Pods of the StatefulSet there.
func TestApply(t *testing.T) {
	s := applied.Start(t)
	for _, resource := range []string{"ServiceMonitor", "PrometheusRule"} {
		define(t, s, resource)
	}
	for _, file := range valueFiles(t, false) {
		namespace := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(namespace, func(t *testing.T) {
			r := render(t, file, namespace, "informd")
			s.Apply(t, r.objects)
			set := only[*appsv1.StatefulSet](t, r)
			s.CreatePod(t, set.Namespace, set.Name, &set.Spec.Template, set.Spec.VolumeClaimTemplates)
		})
	}
	for _, text := range s.Warned() {
		t.Errorf("the API server warns: %s", text)
	}
}

// define serves a kind of the Prometheus operator.
func define(t *testing.T, s *applied.Server, kind string) {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	definitions := s.Dynamic.Resource(applied.Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
	_, err := definitions.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".monitoring.coreos.com"},
		"spec": map[string]any{
			"group": "monitoring.coreos.com", "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resource := s.Dynamic.Resource(applied.Resource("monitoring.coreos.com/v1", kind))
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if _, err = resource.List(t.Context(), metav1.ListOptions{}); err == nil {
			tick.Stop()
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s is not served: %v", kind, err)
		case <-tick.C:
		}
	}
}
