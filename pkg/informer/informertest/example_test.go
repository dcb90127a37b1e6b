package informertest_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"
)

// A test of a handler that writes down deleted Pods. The deletion falls into an outage, after which
// only a list shows it.
func Example() {
	cluster := informertest.New()
	cluster.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}})

	factory, err := informer.NewFactory(cluster.Config(), informer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	deleted := make(chan string, 1)
	_, err = factory.ForResource(pods).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(o any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
		deleted <- strings.TrimSpace(fmt.Sprintln(key, err))
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)

	cluster.Outage(func() {
		cluster.Delete(pods.GroupResource(), "shop", "cart")
		cluster.Compact()
	})
	fmt.Println(<-deleted)
	close(stop)
	factory.Shutdown()
	// Output: shop/cart <nil>
}
