package informer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
)

// clientGoFactories are the tests of dynamicinformer and metadatainformer.
func clientGoFactories() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"dynamicinformer.TestFilteredDynamicSharedInformerFactory": filtered,
		"dynamicinformer.TestDynamicSharedInformerFactory": func(t *testing.T) {
			factoryEvents(t, (*informer.Factory).ForResource, func(o any) bool {
				u, ok := o.(*unstructured.Unstructured)
				return ok && u.GetKind() == "Pod" && u.GetAPIVersion() == "v1"
			})
		},
		"metadatainformer.TestMetadataSharedInformerFactory": func(t *testing.T) {
			factoryEvents(t, (*informer.Factory).ForMetadata, func(o any) bool {
				_, ok := o.(*metav1.PartialObjectMetadata)
				return ok
			})
		},
	}
}

// filtered expects objects of the namespace and the selectors only.
func filtered(t *testing.T) {
	for name, of := range map[string]struct {
		options informer.Options
		seen    bool
	}{
		"other namespace":      {informer.Options{Namespace: "ns-bar"}, false},
		"namespace":            {informer.Options{Namespace: "ns-foo"}, true},
		"other field selector": {informer.Options{Namespace: "ns-foo", FieldSelector: "metadata.name=name-bar"}, false},
		"field selector":       {informer.Options{Namespace: "ns-foo", FieldSelector: "metadata.name=name-foo"}, true},
		"other label selector": {informer.Options{Namespace: "ns-foo", LabelSelector: "environment=production"}, false},
		"label selector":       {informer.Options{Namespace: "ns-foo", LabelSelector: "environment=test"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			factory, start := newFactory(t, api, of.options)
			var h recorder
			handle(t, factory.ForResource(pods()).Informer(), &h)
			start()
			api.put("pods", "ns-foo", "name-foo", labelled(map[string]any{"environment": "test"}))
			last, want := "name-bar", "add name-bar false"
			if of.options.FieldSelector == "metadata.name=name-foo" {
				last, want = "name-foo", "update name-foo"
			}
			// All selectors but those of the first object select the last one.
			namespace, environment := of.options.Namespace, "test"
			if of.options.LabelSelector == "environment=production" {
				environment = "production"
			}
			api.put("pods", namespace, last, labelled(map[string]any{"environment": environment}))
			if of.seen {
				h.wants(t, "add name-foo false", want)
			} else {
				h.wants(t, want)
			}
		})
	}
}

// factoryEvents expects the calls of a handler with objects as the server has them.
func factoryEvents(t *testing.T, of func(*informer.Factory, schema.GroupVersionResource) informer.GenericInformer, whole func(any) bool) {
	t.Helper()
	for name, step := range map[string]struct {
		exists bool
		change func(*fakeAPI)
		want   string
	}{
		"add":    {false, func(api *fakeAPI) { api.put("pods", "ns-foo", "name-foo", nil) }, "add"},
		"update": {true, func(api *fakeAPI) { api.put("pods", "ns-foo", "name-foo", labelled(map[string]any{"test": "x"})) }, "update"},
		"delete": {true, func(api *fakeAPI) { api.delete("pods", "ns-foo", "name-foo") }, "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			if step.exists {
				api.put("pods", "ns-foo", "name-foo", map[string]any{"spec": map[string]any{"hostname": "h"}})
			}
			factory, start := newFactory(t, api, informer.Options{})
			i := of(factory, pods())
			seen := make(chan [2]any, 10)
			h := cache.ResourceEventHandlerDetailedFuncs{
				AddFunc: func(o any, initial bool) {
					if !initial {
						seen <- [2]any{"add", o}
					}
				},
				UpdateFunc: func(_, o any) { seen <- [2]any{"update", o} },
				DeleteFunc: func(o any) { seen <- [2]any{"delete", o} },
			}
			handle(t, i.Informer(), h)
			start()
			step.change(api)
			got := <-seen
			if diff := cmp.Diff(step.want, got[0]); diff != "" {
				t.Error(diff)
			}
			if o, ok := got[1].(metav1.Object); !ok || o.GetNamespace() != "ns-foo" || o.GetName() != "name-foo" || !whole(got[1]) {
				t.Errorf("object %#v", got[1])
			}
		})
	}
}
