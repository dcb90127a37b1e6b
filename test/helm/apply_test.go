package helm_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/informd/informd/test/cluster"
)

// warnings collects what the API server warns of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// server is the real API server, with the admission of Pod Security.
type server struct {
	dynamic dynamic.Interface
	typed   kubernetes.Interface
	warned  *warnings
}

// TestApply applies each good value file by server-side apply: a dry run, for real, and
// again without a change. The namespaces enforce the restricted level of Pod Security, and the
// API server accepts the Pods of the StatefulSet there.
func TestApply(t *testing.T) {
	c := cluster.Start(t, cluster.Options{PodSecurity: true})
	rest := c.RESTConfig()
	s := server{warned: &warnings{}}
	rest.WarningHandler = s.warned
	s.dynamic, s.typed = dynamic.NewForConfigOrDie(rest), kubernetes.NewForConfigOrDie(rest)
	for _, resource := range []string{"ServiceMonitor", "PrometheusRule"} {
		s.define(t, resource)
	}
	for _, file := range valueFiles(t, false) {
		namespace := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(namespace, func(t *testing.T) {
			r := render(t, file, namespace, "informd")
			s.createNamespaces(t, r)
			for _, o := range r.objects {
				s.apply(t, o, metav1.DryRunAll)
			}
			stored := map[string]string{}
			for _, o := range r.objects {
				stored[o.GetKind()+o.GetNamespace()+o.GetName()] = s.apply(t, o).GetResourceVersion()
			}
			for _, o := range r.objects {
				if again := s.apply(t, o); again.GetResourceVersion() != stored[o.GetKind()+o.GetNamespace()+o.GetName()] {
					t.Errorf("the second apply changes the %s %s", o.GetKind(), o.GetName())
				}
			}
			s.createPod(t, only[*appsv1.StatefulSet](t, r))
		})
	}
	for _, text := range s.warned.texts {
		t.Errorf("the API server warns: %s", text)
	}
}

// define serves a kind of the Prometheus operator.
func (s server) define(t *testing.T, kind string) {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	definitions := s.dynamic.Resource(resourceOf("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
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
	resource := s.dynamic.Resource(resourceOf("monitoring.coreos.com/v1", kind))
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

// resourceOf returns the resource of a kind.
func resourceOf(apiVersion, kind string) schema.GroupVersionResource {
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
	return gvr
}

// createNamespaces creates the namespaces of a release that do not exist.
func (s server) createNamespaces(t *testing.T, r release) {
	t.Helper()
	const label = "pod-security.kubernetes.io/"
	for _, o := range r.objects {
		if o.GetNamespace() == "" {
			continue
		}
		_, err := s.typed.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: o.GetNamespace(), Labels: map[string]string{label + "enforce": "restricted", label + "warn": "restricted"},
		}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// apply sends an object as helm and kubectl do on the server's side.
func (s server) apply(t *testing.T, o *unstructured.Unstructured, dryRun ...string) *unstructured.Unstructured {
	t.Helper()
	resource := s.dynamic.Resource(resourceOf(o.GetAPIVersion(), o.GetKind()))
	applied, err := resource.Namespace(o.GetNamespace()).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "helm", DryRun: dryRun})
	if err != nil {
		t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return applied
}

// createPod creates a Pod of a StatefulSet as its controller does, in a dry run. A Pod with one
// more capability shows that the namespace refuses others.
func (s server) createPod(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name = set.Name + "-0"
	for _, claim := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + pod.Name},
		}})
	}
	pods := s.typed.CoreV1().Pods(set.Namespace)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := pods.Create(t.Context(), pod, dryRun); err != nil {
		t.Errorf("create the Pod: %v", err)
	}
	pod.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	if _, err := pods.Create(t.Context(), pod, dryRun); !apierrors.IsForbidden(err) {
		t.Errorf("create a Pod with a capability: %v, want forbidden", err)
	}
}
