package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/sink/drivers"
	"github.com/informd/informd/test/applied"
)

// release is a rendered chart, or a built kustomization.
type release struct {
	namespace string
	secrets   map[string]map[string]string // of a kustomization: what deploy/README.md tells users to make
	objects   []*unstructured.Unstructured
	typed     []runtime.Object // without those of the Prometheus operator
}

// render renders the chart with a value file and more flags, as a release in a namespace.
func render(t *testing.T, file, namespace, name string, flags ...string) release {
	t.Helper()
	args := append([]string{"template", name, chart, "--namespace", namespace, "--kube-version", kubeVersion, "--values", file}, flags...)
	stdout, stderr, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	r := release{namespace: namespace}
	for document := range strings.SplitSeq(stdout, "\n---\n") {
		r.add(t, []byte(strings.TrimPrefix(document, "---\n")))
	}
	return r
}

// renderOwn renders a value file as the release in its comment.
func renderOwn(t *testing.T, file string, flags ...string) release {
	t.Helper()
	namespace, name, _ := strings.Cut(comment(t, file, "release"), "/")
	return render(t, file, namespace, name, flags...)
}

// built builds the kustomization in dir. It is in the namespace of its one service account.
func built(t *testing.T, dir string) release {
	t.Helper()
	r := release{secrets: documentedSecrets(t)}
	for _, document := range applied.Kustomize(t, dir) {
		r.add(t, document)
	}
	if r.namespace = only[*corev1.ServiceAccount](t, r).Namespace; r.namespace == "" {
		t.Fatal("the service account has no namespace")
	}
	return r
}

// add decodes a document. Unknown and repeated fields are errors.
func (r *release) add(t *testing.T, document []byte) {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal(document, &o.Object); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	if len(o.Object) == 0 {
		return
	}
	r.objects = append(r.objects, &o)
	if o.GroupVersionKind().Group == "monitoring.coreos.com" {
		return
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	typed, _, err := strict.Decode(document, nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	r.typed = append(r.typed, typed)
}

// of returns the objects of a type, by namespace and name.
func of[T metav1.Object](r release) map[string]T {
	all := map[string]T{}
	for _, o := range r.typed {
		if object, ok := o.(T); ok {
			all[object.GetNamespace()+"/"+object.GetName()] = object
		}
	}
	return all
}

// only returns the one object of a type.
func only[T metav1.Object](t *testing.T, r release) (one T) {
	t.Helper()
	all := of[T](r)
	if len(all) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(all), one)
	}
	for _, object := range all {
		one = object
	}
	return one
}

// kind returns the objects of a kind that this module has no type for.
func (r release) kind(kind string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(r.objects), func(o *unstructured.Unstructured) bool { return o.GetKind() != kind })
}

// workload makes Pods.
type workload struct {
	name     string
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
}

func workloads(r release) (all []workload) {
	for _, s := range of[*appsv1.StatefulSet](r) {
		all = append(all, workload{s.Name, s.Spec.Selector, s.Spec.Template, s.Spec.VolumeClaimTemplates})
	}
	for _, d := range of[*appsv1.Deployment](r) {
		all = append(all, workload{d.Name, d.Spec.Selector, d.Spec.Template, nil})
	}
	return all
}

// containers are all of a Pod's, those that start first included.
func (w workload) containers() []corev1.Container {
	return slices.Concat(w.template.Spec.InitContainers, w.template.Spec.Containers)
}

// informdOf returns the one container of informd, and what makes its Pods.
func informdOf(t *testing.T, r release) (in workload, main corev1.Container) {
	t.Helper()
	n := 0
	for _, w := range workloads(r) {
		for _, c := range w.containers() {
			if c.Name == "informd" {
				in, main = w, c
				n++
			}
		}
	}
	if n != 1 {
		t.Fatalf("%d containers run informd, want 1", n)
	}
	return in, main
}

// mountOf is the volume mount that a file lies in, zero if it is in none.
func mountOf(c corev1.Container, file string) corev1.VolumeMount {
	for _, m := range c.VolumeMounts {
		if strings.HasPrefix(file, m.MountPath+"/") {
			return m
		}
	}
	return corev1.VolumeMount{}
}

// configText returns the file of --config, from the ConfigMap that the container mounts.
func configText(t *testing.T, r release) []byte {
	t.Helper()
	w, c := informdOf(t, r)
	i := slices.Index(c.Args, "--config")
	if i < 0 || i+1 == len(c.Args) {
		t.Fatalf("args %q have no --config", c.Args)
	}
	mount := mountOf(c, c.Args[i+1])
	for _, v := range w.template.Spec.Volumes {
		if v.Name != mount.Name || v.ConfigMap == nil {
			continue
		}
		if m := of[*corev1.ConfigMap](r)[r.namespace+"/"+v.ConfigMap.Name]; m != nil {
			return []byte(m.Data[strings.TrimPrefix(c.Args[i+1], mount.MountPath+"/")])
		}
	}
	t.Fatalf("no ConfigMap is mounted at %s", c.Args[i+1])
	return nil
}

// parsed is the config as the informd of the first Pod reads it.
func parsed(t *testing.T, r release) *config.Config {
	t.Helper()
	in, main := informdOf(t, r)
	if r.secrets == nil { // a chart
		for name, value := range map[string]string{"NATS_URL": "nats://nats.nats:4222", "KAFKA_PASSWORD": "secret", "HOOK_TOKEN": "17"} {
			t.Setenv(name, value)
		}
	}
	for _, from := range main.EnvFrom {
		for name, value := range r.secrets[from.SecretRef.Name] {
			t.Setenv(name, value)
		}
	}
	for _, e := range main.Env {
		if e.ValueFrom == nil {
			t.Setenv(e.Name, strings.ReplaceAll(e.Value, "$(POD_NAME)", in.name+"-0"))
		}
	}
	text := configText(t, r)
	file := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	c, err := configfile.Load(configfile.Source{Path: file, Drivers: drivers.All()})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// selects reports whether a selector matches labels, and more than nothing.
func selects(selector, labels map[string]string) bool {
	rest := maps.Clone(selector)
	maps.DeleteFunc(rest, func(key, value string) bool { return labels[key] == value })
	return len(selector) > 0 && len(rest) == 0
}

// Every object is in the namespace of the release, or in none, or in one of config.resources;
// and its labels name the release.
func checkPlaces(t *testing.T, r release, name string) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range r.objects {
		id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		gvr, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		elsewhere := gvr.Group == "rbac.authorization.k8s.io"
		if !elsewhere && o.GetNamespace() != r.namespace {
			t.Errorf("%s is not in the namespace %s", id, r.namespace)
		}
		if o.GetLabels()["app.kubernetes.io/instance"] != name || o.GetLabels()["helm.sh/chart"] == "" {
			t.Errorf("%s has the labels %v", id, o.GetLabels())
		}
	}
}
