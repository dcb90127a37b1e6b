package informer_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/informer"
)

// A program that counts the Deployments with a label. Only the constructor of the factory
// differs from client-go.
func Example() {
	config, err := rest.InClusterConfig() // or clientcmd's, from a kubeconfig
	if err != nil {
		fmt.Println(err)
		return
	}
	factory, err := informer.NewFactory(config, informer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	deployments := factory.ForResource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	deployments.Informer() // Start starts the informers that exist
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	list, err := deployments.Lister().List(labels.SelectorFromSet(labels.Set{"app": "shop"}))
	fmt.Println(len(list), err)
	close(stop)
	factory.Shutdown()
}
