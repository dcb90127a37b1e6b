// Package inventory_test is a test of a program with informers, without an API server.
package inventory_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"
)

func nodes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
}

// watchNodes is the program: it keeps the set of Nodes until stop is closed.
func watchNodes(config *rest.Config, stop <-chan struct{}, known map[string]bool) error {
	factory, err := informer.NewFactory(config, informer.Options{})
	if err != nil {
		return err
	}
	_, err = factory.ForMetadata(nodes()).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { known[o.(metav1.Object).GetName()] = true }, //nolint:forcetypeassert // all objects are
		DeleteFunc: func(o any) { // after an outage a cache.DeletedFinalStateUnknown
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
				delete(known, key)
			}
		},
	})
	factory.Start(stop)
	<-stop
	factory.Shutdown()
	return err
}

func TestDeletionDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // waits take no time
		cluster := informertest.New()
		cluster.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}})
		stop, ended, known := make(chan struct{}), make(chan error, 1), map[string]bool{}
		go func() { ended <- watchNodes(cluster.Config(), stop, known) }()
		synctest.Wait() // until the program has nothing to do
		cluster.Outage(func() {
			cluster.Delete(nodes().GroupResource(), "", "worker")
			cluster.Compact()
		})
		<-time.After(time.Minute) // the program retries after a pause
		close(stop)
		if err := <-ended; err != nil || len(known) != 0 {
			t.Errorf("Nodes %v (%v), want worker to be deleted", known, err)
		}
	})
}
