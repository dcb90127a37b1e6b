package helm_test

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
)

// release is a rendered chart.
type release struct {
	namespace string
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

// configText returns the config in the ConfigMap that the container mounts.
func configText(t *testing.T, r release) []byte {
	t.Helper()
	for _, v := range only[*appsv1.StatefulSet](t, r).Spec.Template.Spec.Volumes {
		if v.Name == "config" {
			return []byte(of[*corev1.ConfigMap](r)[r.namespace+"/"+v.ConfigMap.Name].Data["config.yaml"])
		}
	}
	t.Fatal("the StatefulSet has no volume config")
	return nil
}

// parsed is the config as the informd of the first Pod reads it.
func parsed(t *testing.T, r release) *config.Config {
	t.Helper()
	for name, value := range map[string]string{"NATS_URL": "nats://nats.nats:4222", "KAFKA_PASSWORD": "secret", "HOOK_TOKEN": "17"} {
		t.Setenv(name, value)
	}
	set := only[*appsv1.StatefulSet](t, r)
	for _, e := range container(t, set).Env {
		if e.ValueFrom != nil {
			continue
		}
		t.Setenv(e.Name, strings.ReplaceAll(e.Value, "$(POD_NAME)", set.Name+"-0"))
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

// container returns the only container.
func container(t *testing.T, s *appsv1.StatefulSet) corev1.Container {
	t.Helper()
	if n := len(s.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%d containers, want 1", n)
	}
	return s.Spec.Template.Spec.Containers[0]
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
