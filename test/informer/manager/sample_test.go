package manager_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const finalizer = "informd.dev/sample"

// sample is a controller. Each ConfigMap with the label "app" is an app: it owns a Deployment with
// the replicas of its data and the image of a Secret, its template. A finalizer deletes the
// Deployment.
type sample struct {
	client.Client

	mu     sync.Mutex
	states map[string]string // what the last call saw, by key without the controller's name
	faults []string
}

// setUp adds the controller to a manager.
func (s *sample) setUp(ctx context.Context, m ctrl.Manager) error {
	index := m.GetFieldIndexer()
	err := index.IndexField(ctx, &corev1.ConfigMap{}, "data.template", func(o client.Object) []string {
		return []string{o.(*corev1.ConfigMap).Data["template"]} //nolint:forcetypeassert // a panic fails the test
	})
	if err != nil {
		return err
	}
	err = index.IndexField(ctx, &appsv1.Deployment{}, "owner", func(o client.Object) []string {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return []string{owner.Name}
		}
		return nil
	})
	if err != nil {
		return err
	}
	apps := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()["app"] != "" })
	return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}, builder.WithPredicates(apps)).Owns(&appsv1.Deployment{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(s.appsOf)).
		WatchesMetadata(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(s.sameName)).
		Complete(s)
}

// appsOf returns the apps of a template.
func (s *sample) appsOf(ctx context.Context, template client.Object) []reconcile.Request {
	var apps corev1.ConfigMapList
	if err := s.List(ctx, &apps, client.InNamespace(template.GetNamespace()), client.MatchingFields{"data.template": template.GetName()}); err != nil {
		s.fault("list of apps: %v", err)
	}
	all := make([]reconcile.Request, len(apps.Items))
	for i := range apps.Items {
		all[i].NamespacedName = client.ObjectKeyFromObject(&apps.Items[i])
	}
	return all
}

// sameName returns the app with the name of a ServiceAccount, of which only metadata is watched.
func (s *sample) sameName(_ context.Context, account client.Object) []reconcile.Request {
	_, partial := account.(*metav1.PartialObjectMetadata)
	if kind := account.GetObjectKind().GroupVersionKind(); !partial || kind != accountKind() {
		s.fault("the handler of ServiceAccounts gets a %T of the kind %s", account, kind)
	}
	if !strings.HasPrefix(account.GetName(), "app-") {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(account)}}
}

func accountKind() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("ServiceAccount")
}

// Reconcile implements reconcile.Reconciler.
func (s *sample) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	var app corev1.ConfigMap
	if err := s.Get(ctx, r.NamespacedName, &app); err != nil {
		if err = client.IgnoreNotFound(err); err == nil {
			s.note(r.NamespacedName, "deleted")
		}
		return reconcile.Result{}, err
	}
	if app.DeletionTimestamp != nil {
		return reconcile.Result{}, s.finish(ctx, &app)
	}
	if controllerutil.AddFinalizer(&app, finalizer) {
		return reconcile.Result{}, s.Update(ctx, &app)
	}
	image, err := s.image(ctx, &app)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := s.deploy(ctx, &app, image); err != nil {
		return reconcile.Result{}, err
	}
	state, err := s.state(ctx, &app, image)
	if err == nil {
		s.note(r.NamespacedName, state)
	}
	return reconcile.Result{}, err
}

// image is that of the template of an app.
func (s *sample) image(ctx context.Context, app *corev1.ConfigMap) (string, error) {
	var template corev1.Secret
	err := s.Get(ctx, types.NamespacedName{Namespace: app.Namespace, Name: app.Data["template"]}, &template)
	if err != nil {
		return "none", client.IgnoreNotFound(err)
	}
	return string(template.Data["image"]), nil
}

// deploy makes the Deployment of an app.
func (s *sample) deploy(ctx context.Context, app *corev1.ConfigMap, image string) error {
	replicas, err := strconv.ParseInt(app.Data["replicas"], 10, 32)
	if err != nil {
		return err
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	_, err = controllerutil.CreateOrUpdate(ctx, s.Client, d, func() error {
		labels := map[string]string{"app": app.Name}
		d.Spec.Replicas = new(int32(replicas))
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		if len(d.Spec.Template.Spec.Containers) == 0 {
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
		}
		d.Spec.Template.Spec.Containers[0].Image = image
		return controllerutil.SetControllerReference(app, d, s.Scheme())
	})
	return err
}

// state describes what the cache has of an app. The reads of Namespaces and of metadata start
// informers, or use those of the handlers.
func (s *sample) state(ctx context.Context, app *corev1.ConfigMap, image string) (string, error) {
	var owned appsv1.DeploymentList
	if err := s.List(ctx, &owned, client.InNamespace(app.Namespace), client.MatchingFields{"owner": app.Name}); err != nil {
		return "", err
	}
	var namespace corev1.Namespace
	if err := s.Get(ctx, types.NamespacedName{Name: app.Namespace}, &namespace); err != nil {
		return "", err
	}
	account := &metav1.PartialObjectMetadata{}
	account.SetGroupVersionKind(accountKind())
	missing := s.Get(ctx, client.ObjectKeyFromObject(app), account)
	if client.IgnoreNotFound(missing) != nil {
		return "", missing
	}
	return fmt.Sprintf("%s of %s, tier %s, %d owned, account %t", app.Data["replicas"], image, namespace.Labels["tier"], len(owned.Items), missing == nil), nil
}

// finish deletes what an app owns, and then its finalizer.
func (s *sample) finish(ctx context.Context, app *corev1.ConfigMap) error {
	var owned appsv1.DeploymentList
	if err := s.List(ctx, &owned, client.InNamespace(app.Namespace), client.MatchingFields{"owner": app.Name}); err != nil {
		return err
	}
	for i := range owned.Items {
		if err := s.Delete(ctx, &owned.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if len(owned.Items) > 0 {
		return nil // the deletion enqueues the app
	}
	controllerutil.RemoveFinalizer(app, finalizer)
	return client.IgnoreNotFound(s.Update(ctx, app))
}

func (s *sample) note(key types.NamespacedName, state string) {
	_, namespace, _ := strings.Cut(key.Namespace, "-")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[namespace+"/"+key.Name] = state
}

func (s *sample) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *sample) all() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.states)
}

func (s *sample) wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}
