package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

const (
	namespace = "informd-demo"
	// shop is a Deployment that changes in every round and is never deleted. So it has a past:
	// of a deleted object the journal keeps only the deletion.
	shop = "shop"
)

const sensorCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sensors.demo.informd.dev}
spec:
  group: demo.informd.dev
  scope: Namespaced
  names: {plural: sensors, singular: sensor, kind: Sensor, listKind: SensorList}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {unit: {type: string}, interval: {type: string}}}
            status: {type: object, properties: {phase: {type: string}, celsius: {type: integer}}}
`

// workload changes a few objects continuously, as a busy namespace does.
type workload struct {
	client dynamic.Interface
	// own: no controller acts on the objects, so the workload also acts as the kubelet.
	own bool
	// made are the objects that remove deletes.
	made []made
}

// made is a cluster-scoped object of the demo.
type made struct {
	resource schema.GroupVersionResource
	name     string
}

func resource(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

func pods() schema.GroupVersionResource        { return resource("", "pods") }
func configMaps() schema.GroupVersionResource  { return resource("", "configmaps") }
func namespaces() schema.GroupVersionResource  { return resource("", "namespaces") }
func deployments() schema.GroupVersionResource { return resource("apps", "deployments") }
func sensors() schema.GroupVersionResource     { return resource("demo.informd.dev", "sensors") }

func crds() schema.GroupVersionResource {
	return resource("apiextensions.k8s.io", "customresourcedefinitions")
}

func parse(manifest string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	return o, yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 1<<16).Decode(&o.Object)
}

// prepare creates the namespace and the custom resource, and waits until the custom
// resource is served.
func (w *workload) prepare(ctx context.Context) error {
	crd, err := parse(sensorCRD)
	if err != nil {
		return err
	}
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}}
	if err := w.makeOwn(ctx, namespaces(), ns); err != nil {
		return err
	}
	if err := w.makeOwn(ctx, crds(), crd); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := w.client.Resource(sensors()).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, nil
	})
}

// makeOwn creates a cluster-scoped object, which the demo deletes at its end. An existing
// object is an error: the demo did not create it.
func (w *workload) makeOwn(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error {
	_, err := w.client.Resource(r).Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s %s exists already: another demo runs in this cluster or was interrupted; if nothing needs it, delete it", o.GetKind(), o.GetName())
	}
	if err == nil {
		w.made = append(w.made, made{r, o.GetName()})
	}
	return err
}

func ignoreExists(_ *unstructured.Unstructured, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// remove deletes the objects of prepare in an existing cluster.
func (w *workload) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var errs []error
	for _, m := range w.made {
		say("removing %s %s", m.resource.Resource, m.name)
		if err := w.client.Resource(m.resource).Delete(ctx, m.name, metav1.DeleteOptions{}); err != nil {
			errs = append(errs, fmt.Errorf("delete %s %s: %w", m.resource.Resource, m.name, err))
		}
	}
	return errors.Join(errs...)
}

// pace is the time between two changes, slow enough for a reader.
const pace = 600 * time.Millisecond

// run runs rounds until ctx ends. Each round deletes the objects that it created.
func (w *workload) run(ctx context.Context) error {
	err := w.play(ctx, w.create(deployments(), shop, w.deploymentFields()))
	for round := 1; err == nil && ctx.Err() == nil; round++ {
		err = w.play(ctx, w.round(round)...)
	}
	return err
}

// play runs steps, each one after a pause, until ctx ends.
func (w *workload) play(ctx context.Context, steps ...step) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("demo workload: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pace):
		}
	}
	return nil
}

type step func(context.Context) error

// releasesPerRound makes the shop change every few seconds.
const releasesPerRound = 3

// round creates, changes and deletes a small application, and changes the shop.
func (w *workload) round(n int) []step {
	web, sensor, settings := fmt.Sprintf("web-%d", n), fmt.Sprintf("greenhouse-%d", n), fmt.Sprintf("settings-%d", n)
	release := func(i int) step {
		return w.patch(deployments(), shop, fmt.Sprintf(`{"metadata":{"labels":{"release":"v%d"}}}`, releasesPerRound*(n-1)+i))
	}
	celsius := func(i int) step {
		return w.patch(sensors(), sensor, fmt.Sprintf(`{"status":{"phase":"Measuring","celsius":%d}}`, 18+i+n%5), "status")
	}
	steps := []step{
		w.create(configMaps(), settings, map[string]any{"data": map[string]any{"colour": "green"}}),
		w.create(pods(), web, podFields()),
		w.create(sensors(), sensor, map[string]any{"spec": map[string]any{"unit": "celsius", "interval": "10s"}}),
		release(1),
	}
	if w.own {
		// 3 in the first round, then 2: each round changes the spec, and so the generation.
		replicas := 2 + n%2
		steps = append(steps,
			w.patch(pods(), web, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "status"),
			w.patch(deployments(), shop, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)),
			w.patch(deployments(), shop, fmt.Sprintf(`{"status":{"replicas":%d,"readyReplicas":%[1]d,"updatedReplicas":%[1]d,"observedGeneration":%d}}`, replicas, 1+n), "status"),
		)
	}
	return append(steps,
		celsius(0),
		release(2),
		celsius(1),
		celsius(2),
		w.patch(configMaps(), settings, `{"data":{"colour":"blue"}}`),
		release(releasesPerRound),
		w.delete(pods(), web),
		w.delete(configMaps(), settings),
		w.delete(sensors(), sensor),
	)
}

func podFields() map[string]any {
	return map[string]any{"spec": map[string]any{
		"terminationGracePeriodSeconds": int64(0),
		"containers":                    []any{map[string]any{"name": "web", "image": "registry.k8s.io/pause:3.10"}},
	}}
}

func (w *workload) deploymentFields() map[string]any {
	labels := map[string]any{"app": "shop"}
	replicas := int64(0) // no Pods where a kubelet would run them
	if w.own {
		replicas = 2
	}
	return map[string]any{"spec": map[string]any{
		"replicas": replicas,
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": podFields()["spec"]},
	}}
}

// kindOf returns the kind of a resource of the demo.
func kindOf(r schema.GroupVersionResource) string {
	return map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "deployments": "Deployment", "sensors": "Sensor"}[r.Resource]
}

func (w *workload) create(r schema.GroupVersionResource, name string, fields map[string]any) step {
	return func(ctx context.Context) error {
		o := &unstructured.Unstructured{Object: fields}
		o.SetGroupVersionKind(r.GroupVersion().WithKind(kindOf(r)))
		o.SetName(name)
		o.SetNamespace(namespace)
		_, err := w.client.Resource(r).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: "demo"})
		return orInterrupted(ctx, ignoreExists(nil, err))
	}
}

func (w *workload) patch(r schema.GroupVersionResource, name, patch string, subresources ...string) step {
	return func(ctx context.Context) error {
		_, err := w.client.Resource(r).Namespace(namespace).
			Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "demo"}, subresources...)
		return orInterrupted(ctx, err)
	}
}

func (w *workload) delete(r schema.GroupVersionResource, name string) step {
	return func(ctx context.Context) error {
		now := int64(0)
		err := w.client.Resource(r).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return orInterrupted(ctx, err)
	}
}
