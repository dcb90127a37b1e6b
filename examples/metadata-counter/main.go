// Command metadata-counter prints the number of ConfigMaps of each namespace every ten seconds. It
// watches their metadata only.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/pkg/informer"
)

func main() {
	if err := run(); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("metadata-counter stopped", "err", err)
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
	stored := factory.ForMetadata(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Informer().GetIndexer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for tick := time.NewTicker(10 * time.Second); ctx.Err() == nil; {
		counts := make(map[string]int)
		for _, key := range stored.ListKeys() { // keys alone: no object is decoded
			if namespace, _, err := cache.SplitMetaNamespaceKey(key); err == nil {
				counts[namespace]++
			}
		}
		for _, namespace := range slices.Sorted(maps.Keys(counts)) {
			_, _ = fmt.Fprintln(os.Stdout, namespace, counts[namespace])
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}
