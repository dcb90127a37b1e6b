package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/test/applied"
)

// TestApply applies each kustomization, and the chart with each good value file, by server-side apply: a dry run, for
// real, and again without a change. The namespaces enforce the restricted level of Pod Security, and the API server
// accepts the Pods there.
func TestApply(t *testing.T) {
	s := applied.Start(t)
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		s.Define(t, kind)
	}
	apply := func(name string, rendered func(t *testing.T) release) {
		t.Run(name, func(t *testing.T) {
			r := rendered(t)
			s.Apply(t, r.objects)
			for _, w := range workloads(r) {
				s.CreatePod(t, r.namespace, w.name, &w.template, w.claims)
			}
			s.Delete(t, r.objects) // the next one may have others with these names
		})
	}
	for _, dir := range append(kustomizations(), withMonitoring(t)) {
		apply(filepath.Base(dir), func(t *testing.T) release { t.Helper(); return built(t, dir) })
	}
	for _, file := range valueFiles(t, false) {
		namespace := strings.TrimSuffix(filepath.Base(file), ".yaml")
		apply(file, func(t *testing.T) release { t.Helper(); return render(t, file, namespace, "informd") })
	}
	for _, text := range s.Warned() {
		t.Errorf("the API server warns: %s", text)
	}
}

// withMonitoring returns the kustomization of a user: the base and the component, in a directory of its own.
func withMonitoring(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	top, err := filepath.Abs(root)
	must(t, err)
	up, err := filepath.Rel(dir, top)
	must(t, err)
	up += "/deploy/kustomize"
	text := fmt.Sprintf("resources: [%s/base]\ncomponents: [%s/components/monitoring]\n", up, up)
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	return dir
}

// TestMonitoring: Prometheus and Grafana get the files of deploy/, from the chart and from the component of kustomize,
// and have the service scraped.
func TestMonitoring(t *testing.T) {
	for name, r := range map[string]release{
		"chart": renderOwn(t, "testdata/monitoring.yaml"), "kustomize": built(t, withMonitoring(t)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range r.objects {
				if o.GetNamespace() != r.namespace && o.GetKind() != "Namespace" && !strings.HasPrefix(o.GetKind(), "Cluster") {
					t.Errorf("the %s %s is in the namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
				}
			}
			rules, monitors := r.kind("PrometheusRule"), r.kind("ServiceMonitor")
			if len(rules) != 1 || len(monitors) != 1 {
				t.Fatalf("rules: %v, monitors: %v", rules, monitors)
			}
			labels, _, err := unstructured.NestedStringMap(monitors[0].Object, "spec", "selector", "matchLabels")
			if service := only[*corev1.Service](t, r); err != nil || !selects(labels, service.Labels) {
				t.Errorf("the ServiceMonitor selects %v, %v; the service is %v", labels, err, service)
			}
			var want, got any
			must(t, yaml.Unmarshal(read(t, "deploy/prometheus-rules.yaml"), &want))
			decode(t, rules[0].Object["spec"], &got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rules (-file +object):\n%s", diff)
			}
			dashboard := of[*corev1.ConfigMap](r)[r.namespace+"/informd-dashboard"]
			file := strings.TrimSpace(string(read(t, "deploy/grafana-dashboard.json")))
			if dashboard == nil || strings.TrimSpace(dashboard.Data["informd.json"]) != file {
				t.Fatalf("the dashboard differs: %v", dashboard)
			}
			if name == "chart" && (dashboard.Labels["grafana_dashboard"] != "1" || rules[0].GetLabels()["release"] != "prometheus") {
				t.Errorf("labels of the dashboard %v, of the rules %v", dashboard.Labels, rules[0].GetLabels())
			}
		})
	}
}
