package manager_test

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/informd/informd/test/e2e"
)

// app is what the test wants of a ConfigMap.
type app struct{ replicas, template string }

// world is what the test does to the namespaces of one controller. Keys are "<a, b or other>/<name>".
type world struct {
	name   string // of the controller
	api    client.Client
	sample *sample
	apps   map[string]app    // "" if deleted; all that the controller sees
	images map[string]string // of templates
}

func (w *world) meta(key string) metav1.ObjectMeta {
	namespace, name, _ := strings.Cut(key, "/")
	return metav1.ObjectMeta{Namespace: w.name + "-" + namespace, Name: name}
}

// begin creates apps and templates, also in a namespace that the controller does not watch.
func (w *world) begin(t *testing.T) {
	for _, namespace := range []string{"a", "b", "other"} {
		for n := range 2 {
			w.template(t, fmt.Sprintf("%s/template-%d", namespace, n), "v1")
		}
		for n := range 8 {
			w.apply(t, fmt.Sprintf("%s/app-%d", namespace, n), app{fmt.Sprint(n), fmt.Sprintf("template-%d", n%2)})
		}
	}
}

// change changes every kind of object that the controller watches.
func (w *world) change(t *testing.T) {
	w.template(t, "a/template-0", "v2")
	w.apply(t, "a/app-1", app{"9", "template-0"})
	w.remove(t, "b/app-2")
	w.remove(t, "b/app-3")
	w.drift(t, "a/app-4")
	e2e.Must(t, w.api.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: w.meta("b/app-5")}))
}

// changeAgain creates a deleted app again, among others.
func (w *world) changeAgain(t *testing.T) {
	e2e.Eventually(t, "the app has no finalizer", func() bool {
		return apierrors.IsNotFound(w.api.Get(t.Context(), w.key("b/app-2"), &corev1.ConfigMap{}))
	})
	w.apply(t, "b/app-2", app{"3", "template-1"})
	w.apply(t, "b/new", app{"1", "missing"})
	w.template(t, "b/template-1", "v3")
	w.drift(t, "b/app-7")
	e2e.Must(t, w.api.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: w.meta("a/app-6")}))
}

func (w *world) key(key string) types.NamespacedName {
	m := w.meta(key)
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
}

// template creates or updates a template.
func (w *world) template(t *testing.T, key, image string) {
	t.Helper()
	o := &corev1.Secret{ObjectMeta: w.meta(key)}
	_, err := ctrl.CreateOrUpdate(t.Context(), w.api, o, func() error {
		o.Data = map[string][]byte{"image": []byte(image)}
		return nil
	})
	e2e.Must(t, err)
	w.images[key] = image
}

// apply creates or updates the ConfigMap of an app.
func (w *world) apply(t *testing.T, key string, a app) {
	t.Helper()
	e2e.Eventually(t, "no conflict with the controller", func() bool {
		o := &corev1.ConfigMap{ObjectMeta: w.meta(key)}
		_, err := ctrl.CreateOrUpdate(t.Context(), w.api, o, func() error {
			o.Labels = map[string]string{"app": "true"}
			o.Data = map[string]string{"replicas": a.replicas, "template": a.template}
			return nil
		})
		return err == nil
	})
	if !strings.HasPrefix(key, "other/") {
		w.apps[key] = a
	}
}

// remove deletes the ConfigMap of an app, which the finalizer keeps for a moment.
func (w *world) remove(t *testing.T, key string) {
	t.Helper()
	e2e.Must(t, w.api.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: w.meta(key)}))
	w.apps[key] = app{}
}

// drift changes the Deployment of an app, which the controller corrects.
func (w *world) drift(t *testing.T, key string) {
	t.Helper()
	e2e.Must(t, w.api.Patch(t.Context(), &appsv1.Deployment{ObjectMeta: w.meta(key)}, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":77}}`))))
}

// settle waits until the controller's states and the objects of the cluster are those wanted.
func (w *world) settle(t *testing.T) {
	t.Helper()
	states, objects := map[string]string{}, map[string]string{}
	for key, a := range w.apps {
		if a == (app{}) {
			states[key] = "deleted"
			continue
		}
		namespace, _, _ := strings.Cut(key, "/")
		image := cmp.Or(w.images[namespace+"/"+a.template], "none")
		states[key] = fmt.Sprintf("%s of %s, tier %s, 1 owned, account %t", a.replicas, image, namespace, w.api.Get(t.Context(), w.key(key), &corev1.ServiceAccount{}) == nil)
		objects[key] = fmt.Sprintf("%s of %s", a.replicas, image)
	}
	var got, found map[string]string
	defer func() {
		if t.Failed() {
			t.Logf("%s: states, -want +got:\n%s\nobjects, -want +got:\n%s", w.name, gocmp.Diff(states, got), gocmp.Diff(objects, found))
		}
	}()
	e2e.Eventually(t, w.name+": the states and objects are those wanted", func() bool {
		got, found = w.sample.all(), w.objects(t)
		return maps.Equal(got, states) && maps.Equal(found, objects)
	})
	if faults := w.sample.wrong(); len(faults) > 0 {
		t.Errorf("%s: %q", w.name, faults)
	}
}

// objects returns the Deployments of the cluster, and faults of their owners.
func (w *world) objects(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, namespace := range []string{"a", "b", "other"} {
		var deployments appsv1.DeploymentList
		var owners corev1.ConfigMapList
		e2e.Must(t, w.api.List(t.Context(), &deployments, client.InNamespace(w.name+"-"+namespace)))
		e2e.Must(t, w.api.List(t.Context(), &owners, client.InNamespace(w.name+"-"+namespace)))
		uids := map[string]types.UID{}
		for _, o := range owners.Items {
			uids[o.Name] = o.UID
		}
		for _, d := range deployments.Items {
			text := fmt.Sprintf("%d of %s", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image)
			if owner := metav1.GetControllerOf(&d); owner == nil || owner.UID != uids[d.Name] {
				text += ", of another owner"
			}
			all[namespace+"/"+d.Name] = text
		}
	}
	return all
}
