package cluster_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/informd/informd/test/cluster"
)

func TestSeededBugHidesAChangeFromTheWatchCache(t *testing.T) {
	ctx := t.Context()
	c := cluster.Start(t, cluster.Options{SeededBug: true})
	configMaps := client(t, c.RESTConfig()).CoreV1().ConfigMaps(namespace)
	first := create(ctx, t, client(t, c.RESTConfig()), "object")
	watch, err := configMaps.Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	patch := []byte(`{"metadata":{"annotations":{"` + cluster.DropAnnotation + `":"MODIFIED"}},"data":{"a":"1"}}`)
	hidden, err := configMaps.Patch(ctx, "object", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := create(ctx, t, client(t, c.RESTConfig()), "other")
	eventually(ctx, t, "the cache has passed the hidden change", func(ctx context.Context) bool {
		_, err := configMaps.Get(ctx, "other", metav1.GetOptions{ResourceVersion: "0"})
		return err == nil
	})
	for name, test := range map[string]struct {
		get  metav1.GetOptions
		want string
	}{
		"get from etcd":      {metav1.GetOptions{}, hidden.ResourceVersion},
		"get from the cache": {metav1.GetOptions{ResourceVersion: "0"}, first.ResourceVersion},
	} {
		got, err := configMaps.Get(ctx, "object", test.get)
		if err != nil || got.ResourceVersion != test.want {
			t.Errorf("%s: revision %s, %v; want %s", name, got.ResourceVersion, err, test.want)
		}
	}
	consistent, err := configMaps.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range consistent.Items {
		if item.Name == "object" && item.ResourceVersion != first.ResourceVersion {
			t.Errorf("a consistent list has the object at revision %s, want the old one, %s", item.ResourceVersion, first.ResourceVersion)
		}
	}
	for event := range watch.ResultChan() {
		object, ok := event.Object.(metav1.Object)
		if !ok {
			t.Fatalf("watch: %v", event)
		}
		if object.GetName() == "object" {
			t.Errorf("the watch shows the hidden change: %s at %s", event.Type, object.GetResourceVersion())
		}
		if object.GetName() == other.Name {
			return
		}
	}
}
