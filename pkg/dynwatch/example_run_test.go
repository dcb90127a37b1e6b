package dynwatch_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// A program that prints every change of Deployments. A restart begins with the Deployments that there
// are.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := rest.InClusterConfig() // or clientcmd's, from a kubeconfig
	if err != nil {
		fmt.Println(err)
		return
	}
	err = dynwatch.Run(ctx, dynwatch.Options{Kubernetes: config},
		[]dynwatch.Resource{{Group: "apps", Resource: "deployments"}},
		func(e event.Event) error {
			_, err := fmt.Println(e.Op, e.Namespace, e.Name, e.ResourceVersion)
			return err
		})
	if err != nil {
		fmt.Println(err)
	}
}
