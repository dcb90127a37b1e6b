package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/bench/corpus"
)

func podResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// createPods creates the Pods of the corpus on a real API server, in the namespace
// default, and returns their names.
func createPods(ctx context.Context, client dynamic.Interface, n int) ([]string, error) {
	c, err := corpus.Pods()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := make([]string, n)
	var writers sync.WaitGroup
	for w := range commitWriters {
		writers.Go(func() {
			for i := w; i < n && ctx.Err() == nil; i += commitWriters {
				var err error
				if names[i], err = createPod(ctx, client, c, i); err != nil {
					cancel(fmt.Errorf("create pod %d: %w", i, err))
				}
			}
		})
	}
	writers.Wait()
	return names, context.Cause(ctx)
}

// createPod creates one with its status. What only the server sets, or what refers to
// objects that are not there, is left out.
func createPod(ctx context.Context, client dynamic.Interface, c *corpus.Corpus, i int) (string, error) {
	var o unstructured.Unstructured
	if err := json.Unmarshal(typed(c.Append(nil, corpus.Item, corpus.Object{Index: i})), &o.Object); err != nil {
		return "", err
	}
	created := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": o.Object["spec"]}}
	created.SetName(o.GetName())
	created.SetLabels(o.GetLabels())
	created.SetAnnotations(o.GetAnnotations())
	for _, field := range []string{"serviceAccountName", "serviceAccount", "volumes"} {
		unstructured.RemoveNestedField(created.Object, "spec", field)
	}
	containers, _, err := unstructured.NestedSlice(created.Object, "spec", "containers")
	if err != nil {
		return "", err
	}
	for _, container := range containers {
		if c, ok := container.(map[string]any); ok {
			delete(c, "volumeMounts")
		}
	}
	if err := unstructured.SetNestedSlice(created.Object, containers, "spec", "containers"); err != nil {
		return "", err
	}
	pods := client.Resource(podResource()).Namespace("default")
	stored, err := pods.Create(ctx, &created, metav1.CreateOptions{FieldManager: "kube-controller-manager"})
	if err != nil {
		return "", err
	}
	stored.Object["status"] = o.Object["status"]
	_, err = pods.UpdateStatus(ctx, stored, metav1.UpdateOptions{FieldManager: "kubelet"})
	return o.GetName(), err
}

// typed gives an item of a list the type that such an item does not have.
func typed(item []byte) []byte {
	return append([]byte(`{"apiVersion":"v1","kind":"Pod",`), item[1:]...)
}
