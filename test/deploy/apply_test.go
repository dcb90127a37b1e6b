package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/test/applied"
)

// TestApply applies each kustomization to a real API server.
func TestApply(t *testing.T) {
	s := applied.Start(t)
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		s.Define(t, kind)
	}
	for _, dir := range append(kustomizations(), withMonitoring(t)) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			d := build(t, dir)
			s.Apply(t, d.objects)
			for _, set := range find[*appsv1.StatefulSet](d) {
				s.CreatePod(t, d.namespace, set.Name, &set.Spec.Template, set.Spec.VolumeClaimTemplates)
			}
			for _, set := range find[*appsv1.Deployment](d) {
				s.CreatePod(t, d.namespace, set.Name, &set.Spec.Template, nil)
			}
			s.Delete(t, d.objects) // the next one may have others with these names
		})
	}
	for _, text := range s.Warned() {
		t.Errorf("the API server warns: %s", text)
	}
}

// withMonitoring returns the kustomization of a user: the base and the component, in a directory below root.
func withMonitoring(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	top, err := filepath.Abs(root)
	must(t, err)
	up, err := filepath.Rel(dir, top)
	must(t, err)
	text := fmt.Sprintf("resources: [%s/deploy/kustomize/base]\ncomponents: [%s/%s]\n", up, up, monitoring)
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	from, err := filepath.Rel(top, dir)
	must(t, err)
	return from
}

// TestMonitoring: the component has the service of the base scraped, and the objects of the chart.
func TestMonitoring(t *testing.T) {
	d := build(t, withMonitoring(t))
	services := find[*corev1.Service](d)
	found := map[string]map[string]any{}
	for _, o := range d.objects {
		found[o.GetKind()] = o.Object
		if o.GetNamespace() != d.namespace && o.GetKind() != "Namespace" && !strings.HasPrefix(o.GetKind(), "Cluster") {
			t.Errorf("the %s %s is in the namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	labels, _, err := unstructured.NestedStringMap(found["ServiceMonitor"], "spec", "selector", "matchLabels")
	if err != nil || len(labels) == 0 || len(services) != 1 || !selects(labels, services[0].Labels) {
		t.Errorf("the ServiceMonitor selects %v, %v; the service is %v", labels, err, services)
	}
	var want any
	must(t, yaml.Unmarshal(read(t, "deploy/prometheus-rules.yaml"), &want))
	if diff := cmp.Diff(want, found["PrometheusRule"]["spec"]); diff != "" {
		t.Errorf("rules (-file +object):\n%s", diff)
	}
	if dashboard := d.configMap("informd-dashboard")["informd.json"]; dashboard != string(read(t, "deploy/grafana-dashboard.json")) {
		t.Errorf("the dashboard differs: %d bytes", len(dashboard))
	}
}
