package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	demandNamespace = "independent"
	deployments     = 12
	jobTTL          = 5 // seconds
	visitors        = 20
	imageName       = "example.com/image:1"
)

// demands are what the load asks of the controllers. Each method runs in a loop of
// its own; an error is a request that a fault made fail, and the loop repeats it.
type demands struct {
	client  *kubernetes.Clientset
	dynamic []dynamic.Interface
	seed    uint64
	pods    int // of all Deployments together, at most
}

func newDemands(config *rest.Config, clients []dynamic.Interface, options Options) (*demands, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &demands{client: client, dynamic: clients, seed: options.Seed, pods: options.Pods}, nil
}

// demand runs the loops until Stop.
func (w *Workload) demand(d *demands) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := w.cancel
	w.cancel = func() { stop(); cancel() }
	for i, loop := range []struct {
		every time.Duration
		step  func(context.Context, *rand.Rand, int) error
	}{
		{2 * time.Second, d.deployment},
		{3 * time.Second, d.job},
		{20 * time.Second, d.namespace},
		{25 * time.Second, d.definition},
	} {
		random := rand.New(rand.NewPCG(d.seed, 200+uint64(i)))
		w.running.Go(func() {
			ticker := time.NewTicker(loop.every)
			defer ticker.Stop()
			for n := 0; ; n++ {
				w.pause.RLock()
				err := loop.step(ctx, random, n)
				w.pause.RUnlock()
				if err == nil {
					w.writes.Add(1)
				} else {
					w.failed.Add(1)
				}
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
			}
		})
	}
}

// deployment scales or rolls one of the Deployments, or creates it with a Service.
func (d *demands) deployment(ctx context.Context, random *rand.Rand, n int) error {
	if err := d.ensureNamespace(ctx, demandNamespace); err != nil {
		return err
	}
	name := fmt.Sprintf("web-%d", random.IntN(deployments))
	objects := d.client.AppsV1().Deployments(demandNamespace)
	replicas := d.pods / deployments
	if n >= deployments {
		replicas = random.IntN(replicas + 1)
	}
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	if random.IntN(3) == 0 {
		patch = fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"edition":"%d"}}}}}`, n)
	}
	_, err := objects.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	if _, err := objects.Create(ctx, deploymentOf(name, int32(replicas)), metav1.CreateOptions{}); err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	_, err = d.client.CoreV1().Services(demandNamespace).Create(ctx, service, metav1.CreateOptions{})
	return err
}

func deploymentOf(name string, replicas int32) *appsv1.Deployment {
	surge := intstr.FromString("50%")
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &surge}},
		Template: template(name, corev1.RestartPolicyAlways),
	}}
}

func template(app string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	grace := int64(1)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			RestartPolicy: restart, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "c", Image: imageName}},
		},
	}
}

// job creates a Job that is removed some seconds after it has succeeded.
func (d *demands) job(ctx context.Context, random *rand.Rand, n int) error {
	if err := d.ensureNamespace(ctx, demandNamespace); err != nil {
		return err
	}
	return d.createJob(ctx, demandNamespace, fmt.Sprintf("job-%d", n), int32(1+random.IntN(5)))
}

func (d *demands) createJob(ctx context.Context, namespace, name string, completions int32) error {
	ttl, parallel := int32(jobTTL), completions
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Completions: &completions, Parallelism: &parallel, TTLSecondsAfterFinished: &ttl,
		Template: template(name, corev1.RestartPolicyNever),
	}}
	_, err := d.client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
	return err
}

// namespace fills a namespace, or deletes the one before with all that is in it.
func (d *demands) namespace(ctx context.Context, _ *rand.Rand, n int) error {
	if before := fmt.Sprintf("guest-%d", n-1); n > 0 {
		if err := d.client.CoreV1().Namespaces().Delete(ctx, before, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	name := fmt.Sprintf("guest-%d", n)
	if err := d.ensureNamespace(ctx, name); err != nil {
		return err
	}
	if _, err := d.client.AppsV1().Deployments(name).Create(ctx, deploymentOf("guest", 5), metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range 5 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("settings-%d", i)}}
		if _, err := d.client.CoreV1().ConfigMaps(name).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return d.createJob(ctx, name, "once", 2)
}

func (d *demands) ensureNamespace(ctx context.Context, name string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := d.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// definition removes the custom resource with its objects, or installs it and
// writes some.
func (d *demands) definition(ctx context.Context, random *rand.Rand, n int) error {
	k, client := visitor(), d.dynamic[n%len(d.dynamic)]
	if n%2 == 1 {
		err := client.Resource(definitions()).Delete(ctx, k.crd(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	_, err := client.Resource(definitions()).Create(ctx, k.definition(n), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := d.ensureNamespace(ctx, demandNamespace); err != nil {
		return err
	}
	objects := client.Resource(k.gvr).Namespace(demandNamespace)
	for i := range visitors {
		name := fmt.Sprintf("visitor-%d", i)
		if _, err := objects.Create(ctx, k.object(demandNamespace, name, fmt.Sprint(n)), metav1.CreateOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if random.IntN(2) == 0 {
			_, _ = objects.Patch(ctx, name, types.MergePatchType, []byte(k.patch(fmt.Sprintf("%d-%d", n, i))), metav1.PatchOptions{}) // it may not be served yet
		}
	}
	return nil
}
