package manager_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/informer/program"
)

// TestExample: examples/manager becomes leader, counts Pods, uses no stock informer, and ends at
// an interrupt.
func TestExample(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	api, err := client.New(c.RESTConfig(), client.Options{})
	e2e.Must(t, err)
	path := filepath.Join(t.TempDir(), "manager")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../../examples/manager", "-trimpath", "-o", path, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	out := program.Start(t, c.Kubeconfig(), path)

	labels := map[string]string{"app": "x"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "set"},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
	}
	create(t, api, set)
	e2e.Eventually(t, "the program counts no Pods", func() bool { return strings.Contains(out.String(), "replicaset=default/set pods=0") })
	owned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod"}, Spec: pod.Spec}
	e2e.Must(t, controllerutil.SetControllerReference(set, owned, api.Scheme()))
	create(t, api, owned)
	e2e.Eventually(t, "the program counts the Pod", func() bool { return strings.Contains(out.String(), "replicaset=default/set pods=1") })
	if err := out.End(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
	if text := out.String(); strings.Contains(text, "informer not replaced") {
		t.Errorf("the program uses stock informers:\n%s", text)
	}
}
