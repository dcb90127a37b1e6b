// Command controller prints the number of Pods of each StatefulSet, after each change of them.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/pkg/informer"
)

func main() {
	if err := run(); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("controller stopped", "err", err)
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
	defer factory.Shutdown() // after stop
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	sets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	stored, owned := factory.ForMetadata(sets).Informer().GetIndexer(), factory.ForMetadata(pods).Informer().GetIndexer()
	if err := owned.AddIndexers(cache.Indexers{"owner": informer.OwnerIndex()}); err != nil {
		return err
	}
	reconcile := func(_ context.Context, key types.NamespacedName) (informer.Result, error) {
		set, _, err := stored.GetByKey(key.String())
		if object, ok := set.(metav1.Object); ok {
			keys, _ := owned.IndexKeys("owner", string(object.GetUID())) // its only error is an unknown index
			_, err = fmt.Fprintln(os.Stdout, key, "has", len(keys), "Pods")
		}
		return informer.Result{}, err
	}
	options := informer.ReconcilerOptions{Metadata: true, OwnerKind: schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, Owned: []informer.Owned{{Resource: pods, Metadata: true}}}
	r, err := informer.NewReconciler(factory, sets, reconcile, options)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return r.Run(ctx)
}
