// Command clusters prints the Deployments that change in several clusters: those of the kubeconfigs
// in its arguments.
package main

import (
	"context"
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
	if err := run(os.Args[1:]); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("clusters stopped", "err", err)
		os.Exit(1)
	}
}

func run(kubeconfigs []string) error {
	factories := make(map[string]*informer.Factory)
	for _, path := range kubeconfigs {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return err
		}
		if factories[path], err = informer.NewFactory(config, informer.Options{}); err != nil {
			return err
		}
	}
	clusters, err := informer.NewClusters(factories)
	if err != nil {
		return err
	}
	defer clusters.Shutdown()
	deployments := clusters.ForMetadata(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	if err := deployments.Setup(func(cluster string, i cache.SharedIndexInformer) error {
		show := func(o any) {
			if m, ok := o.(metav1.Object); ok {
				_, _ = fmt.Fprintf(os.Stdout, "%s/%s/%s\n", cluster, m.GetNamespace(), m.GetName())
			}
		}
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: show, UpdateFunc: func(_, o any) { show(o) }})
		return err
	}); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	clusters.Start(ctx)
	<-ctx.Done()
	return nil
}
