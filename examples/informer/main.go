// Command informer prints the owners of each Pod that changes.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/pkg/informer"
)

func main() {
	if err := run(); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("informer stopped", "err", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")) // without it, that of the Pod
	if err != nil {
		return err
	}
	factory, err := informer.NewFactory(config, informer.Options{})
	if err != nil {
		return err
	}
	pods := factory.ForMetadata(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    printOwners,
		UpdateFunc: func(_, o any) { printOwners(o) },
	}); err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	stop := make(chan struct{})
	factory.Start(stop)
	<-interrupted
	close(stop)
	factory.Shutdown()
	return nil
}

func printOwners(o any) {
	pod, ok := o.(metav1.Object)
	if !ok {
		return
	}
	for _, owner := range pod.GetOwnerReferences() {
		_, _ = fmt.Fprintf(os.Stdout, "%s/%s is owned by %s %s\n", pod.GetNamespace(), pod.GetName(), owner.Kind, owner.Name)
	}
}
