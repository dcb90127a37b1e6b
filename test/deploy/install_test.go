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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/informd/informd/test/applied"
	"github.com/informd/informd/test/cluster"
)

// TestInstall installs, upgrades and uninstalls the chart in a cluster.
func TestInstall(t *testing.T) {
	c := cluster.Start(t, cluster.Options{PodSecurity: true})
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, err := helm(t, append(args, "--namespace", "watch", "--kubeconfig", c.Kubeconfig())...)
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", args[0], err, stderr)
		}
		return stdout
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "watch", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	set := func() *appsv1.StatefulSet {
		t.Helper()
		s, err := client.AppsV1().StatefulSets("watch").Get(t.Context(), "informd", metav1.GetOptions{})
		must(t, err)
		return s
	}

	// Until a release, the notes say how to build the image.
	const warning, build = "is not published", "make image"
	if text := run("install", "informd", chartOf(t, true), "--values", defaults); !strings.Contains(text, warning) || !strings.Contains(text, build) {
		t.Errorf("the notes do not say how to get the image:\n%s", text)
	}
	first := set()
	if text := run("upgrade", "informd", chartOf(t, true), "--values", defaults, "--set", "config.log.level=debug,image.repository=registry.example.com/informd"); strings.Contains(text, warning) {
		t.Errorf("with another image:\n%s", text)
	}
	if now := set(); now.UID != first.UID || now.Generation == first.Generation {
		t.Errorf("the upgrade does not change the StatefulSet in its place: %d, before %d", now.Generation, first.Generation)
	}
	if text := run("upgrade", "informd", chartOf(t, false), "--values", defaults); strings.Contains(text, warning) {
		t.Errorf("of a released chart:\n%s", text)
	}
	run("uninstall", "informd", "--wait")
	if _, err := client.AppsV1().StatefulSets("watch").Get(t.Context(), "informd", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the uninstallation: %v", err)
	}
	if roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=informd"}); err != nil || len(roles.Items) > 0 {
		t.Errorf("after the uninstallation there are %d cluster roles, %v", len(roles.Items), err)
	}
}

// chartOf is a copy of the chart, with or without the mark of one whose image is not published.
func chartOf(t *testing.T, unreleased bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "informd")
	must(t, os.CopyFS(dir, os.DirFS(chart)))
	file := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(file)
	must(t, err)
	var fields map[string]any
	must(t, yaml.Unmarshal(text, &fields))
	fields["annotations"] = map[string]any{"artifacthub.io/license": "Apache-2.0"}
	if unreleased {
		fields["annotations"] = map[string]any{"informd.dev/unreleased": "true"}
	}
	if text, err = yaml.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(file, text, 0o600))
	return dir
}

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
