package cluster_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/test/cluster"
)

func podTemplate(app string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			RestartPolicy: restart,
			Containers:    []corev1.Container{{Name: "c", Image: "none"}},
		},
	}
}

func TestControllersMakeTheClusterLiveByItself(t *testing.T) {
	ctx := t.Context()
	c := cluster.Start(t, cluster.Options{Controllers: true, Nodes: 2})
	admin := client(t, c.RESTConfig())

	replicas := int32(3)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: podTemplate("web", corev1.RestartPolicyAlways),
		},
	}
	deployments := admin.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ttl := int32(0)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec:       batchv1.JobSpec{TTLSecondsAfterFinished: &ttl, Template: podTemplate("once", corev1.RestartPolicyNever)},
	}
	jobs := admin.BatchV1().Jobs(namespace)
	if _, err := jobs.Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "three Pods run on nodes", func(ctx context.Context) bool {
		got, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && got.Status.ReadyReplicas == replicas
	})
	eventually(ctx, t, "the Job succeeds and is removed", func(ctx context.Context) bool {
		_, err := jobs.Get(ctx, "once", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	background := metav1.DeletePropagationBackground
	must(t, deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: &background}))
	eventually(ctx, t, "no Pod is left", func(ctx context.Context) bool {
		pods, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0
	})
	if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	must(t, admin.CoreV1().Namespaces().Delete(ctx, "team", metav1.DeleteOptions{}))
	eventually(ctx, t, "a deleted namespace ends", func(ctx context.Context) bool {
		_, err := admin.CoreV1().Namespaces().Get(ctx, "team", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
