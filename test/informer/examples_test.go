package informer_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/informer/program"
)

// TestExamples runs the programs of examples/ with informers until each has printed a change that
// the test made, and interrupts them.
func TestExamples(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-trimpath", "-o", programs+"/",
		"./examples/informer", "./examples/controller", "./examples/clusters", "./examples/metadata-counter")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	api := client(t, c.RESTConfig())
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	set, err := api.AppsV1().StatefulSets(namespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set"}, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	e2e.Must(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: template.Spec}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	if _, err := api.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
	if _, err := api.AppsV1().Deployments(namespace).Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().ConfigMaps("kube-public").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, example := range []struct{ name, argument, prints string }{
		{"informer", "", "default/pod is owned by StatefulSet set\n"},
		{"controller", "", "default/set has 1 Pods\n"},
		{"clusters", c.Kubeconfig(), c.Kubeconfig() + "/default/web\n"},
		{"metadata-counter", "", "kube-public 1\n"},
	} {
		t.Run(example.name, func(t *testing.T) {
			out := program.Start(t, c.Kubeconfig(), filepath.Join(programs, example.name), strings.Fields(example.argument)...)
			e2e.Eventually(t, "it prints "+example.prints, func() bool { return strings.Contains(out.String(), example.prints) })
		})
	}
}
