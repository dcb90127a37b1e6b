// Package applied builds kustomizations, and applies manifests to a real API server with the admission
// of Pod Security.
package applied

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/informd/informd/test/cluster"
)

// Kustomize builds a kustomization. Each object is one document.
func Kustomize(t *testing.T, dir string) (documents [][]byte) {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		documents = append(documents, text)
	}
	return documents
}

// Restricted holds a Pod to the restricted level of Pod Security, and to a read-only root.
func Restricted(t *testing.T, name string, metadata *metav1.ObjectMeta, spec *corev1.PodSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, metadata, spec))
	if !result.Allowed {
		t.Errorf("%s: Pod Security restricted: %s: %s", name, result.ForbiddenReason(), result.ForbiddenDetail())
	}
	for _, c := range append(slices.Clone(spec.InitContainers), spec.Containers...) {
		if readOnly := c.SecurityContext.ReadOnlyRootFilesystem; readOnly == nil || !*readOnly {
			t.Errorf("%s/%s: the root file system is writable", name, c.Name)
		}
	}
}

// Server is the API server.
type Server struct {
	Dynamic dynamic.Interface
	typed   kubernetes.Interface

	mu     sync.Mutex
	warned []string
}

// Start starts a cluster for a test.
func Start(t *testing.T) *Server {
	t.Helper()
	rest := cluster.Start(t, cluster.Options{PodSecurity: true}).RESTConfig()
	s := &Server{}
	rest.WarningHandler = s
	s.Dynamic, s.typed = dynamic.NewForConfigOrDie(rest), kubernetes.NewForConfigOrDie(rest)
	return s
}

// HandleWarningHeader keeps what the API server warns of.
func (s *Server) HandleWarningHeader(_ int, _, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warned = append(s.warned, text)
}

// Warned returns all warnings.
func (s *Server) Warned() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warned
}

// Resource returns the resource of a kind.
func Resource(apiVersion, kind string) schema.GroupVersionResource {
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
	return gvr
}

// Define serves a kind of the Prometheus operator.
func (s *Server) Define(t *testing.T, kind string) {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	definitions := s.Dynamic.Resource(Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
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
	resource := s.Dynamic.Resource(Resource("monitoring.coreos.com/v1", kind))
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

// Apply creates the namespaces of the objects, with the restricted level of Pod Security, and
// applies the objects on the server's side, as helm and kubectl do: in a dry run, for real, and
// again, which must change nothing.
func (s *Server) Apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	s.createNamespaces(t, objects)
	for _, o := range objects {
		s.apply(t, o, metav1.DryRunAll)
	}
	stored := make([]string, len(objects))
	for i, o := range objects {
		stored[i] = s.apply(t, o).GetResourceVersion()
	}
	for i, o := range objects {
		if s.apply(t, o).GetResourceVersion() != stored[i] {
			t.Errorf("the second apply changes the %s %s", o.GetKind(), o.GetName())
		}
	}
}

func (s *Server) createNamespaces(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	const label = "pod-security.kubernetes.io/"
	for _, o := range objects {
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

func (s *Server) apply(t *testing.T, o *unstructured.Unstructured, dryRun ...string) *unstructured.Unstructured {
	t.Helper()
	resource := s.Dynamic.Resource(Resource(o.GetAPIVersion(), o.GetKind()))
	applied, err := resource.Namespace(o.GetNamespace()).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "helm", DryRun: dryRun, Force: true})
	if err != nil {
		t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return applied
}

// Delete deletes what [Server.Apply] applied, apart from namespaces.
func (s *Server) Delete(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			continue
		}
		resource := s.Dynamic.Resource(Resource(o.GetAPIVersion(), o.GetKind()))
		if err := resource.Namespace(o.GetNamespace()).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// CreatePod creates the first Pod of a StatefulSet or Deployment as its controller does, in a dry
// run. A Pod with one more capability shows that the namespace refuses others.
func (s *Server) CreatePod(t *testing.T, namespace, name string, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name = name + "-0"
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + pod.Name},
		}})
	}
	pods := s.typed.CoreV1().Pods(namespace)
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := pods.Create(t.Context(), pod, dryRun); err != nil {
		t.Errorf("create the Pod of %s: %v", name, err)
	}
	pod.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	if _, err := pods.Create(t.Context(), pod, dryRun); !apierrors.IsForbidden(err) {
		t.Errorf("create a Pod of %s with a capability: %v, want forbidden", name, err)
	}
}
