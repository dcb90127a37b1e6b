package informer_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"
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

// dynamicFactory is the type of docs/embedding.md.
type dynamicFactory struct{ *informer.Factory } // a dynamicinformer.DynamicSharedInformerFactory

func (f dynamicFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	return f.Factory.ForResource(gvr)
}

// TestDropIn uses informers through interfaces of client-go: its factory, and its typed listers.
func TestDropIn(t *testing.T) {
	fake := informertest.New()
	fake.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}, Spec: corev1.PodSpec{NodeName: "n"}})
	own, err := informer.NewFactory(fake.Config(), informer.Options{})
	e2e.Must(t, err)
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	var factory dynamicinformer.DynamicSharedInformerFactory = dynamicFactory{own}
	whole := factory.ForResource(gvr)
	typed, err := informer.NewSharedIndexInformer(fake.Config(), gvr, &corev1.Pod{}, 0, nil)
	e2e.Must(t, err)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); typed.Run(stop) }()
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown(); <-ended })
	if !factory.WaitForCacheSync(t.Context().Done())[gvr] {
		t.Fatal("not synced")
	}
	e2e.Eventually(t, "the typed informer is synced", typed.HasSynced)
	if _, err := whole.Lister().ByNamespace("a").Get("one"); err != nil {
		t.Error(err)
	}
	if pod, err := listers.NewPodLister(typed.GetIndexer()).Pods("a").Get("one"); err != nil || pod.Spec.NodeName != "n" {
		t.Errorf("typed: %v (%v)", pod, err)
	}
}
