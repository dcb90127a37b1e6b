package informertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer/informertest"
)

// TestInformerOfClientGo: client-go's dynamic client and informer work with the cluster.
func TestInformerOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := informertest.New()
		c.Put(config("a", "one", "1"))
		c.Put(config("a", "two", "1"))
		client, err := dynamic.NewForConfig(c.Config())
		must(t, err)
		resource := client.Resource(configs())
		i := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return resource.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return resource.Watch(ctx, o)
			},
		}, &unstructured.Unstructured{}, 0, cache.Indexers{})
		f := &follower{mirror: newMirror(), cluster: c, of: configs(), informer: i}
		if _, err := i.AddEventHandler(f); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); i.RunWithContext(ctx) }()
		defer func() { cancel(); <-ended }()
		f.settles(t)
		c.Outage(func() {
			c.Delete(configs().GroupResource(), "a", "one")
			c.Put(config("a", "three", "1"))
			c.Compact()
		})
		f.settles(t)
		c.Put(config("a", "two", "2"))
		<-time.After(time.Second)
		f.settles(t)
	})
}
