// Command baseline is the program that people write by hand to copy the objects of a
// Kubernetes resource: client-go's dynamic informer, json.Marshal, and a sink. It has
// sensible defaults: no resync, no rate limit, asynchronous publishing, batches. It does
// less than informd: no history, no order over sinks, no state after its end.
//
// With -strip a transform removes managedFields before the cache. With -metadata it uses
// the metadata informer, which is the cheapest informer and has no specs.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/test/bench/progress"
)

// options are the flags.
type options struct {
	kubeconfig, resource, listen, sink, url string
	strip, metadata                         bool
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	flag.StringVar(&o.resource, "resource", "/v1/pods", "group/version/resource")
	flag.StringVar(&o.listen, "listen", "", "host:port where to say how far it is")
	flag.StringVar(&o.sink, "sink", "none", "none, stdout, nats, jetstream or webhook")
	flag.StringVar(&o.url, "url", "", "where the sink delivers")
	flag.BoolVar(&o.strip, "strip", false, "take the managedFields off before the cache")
	flag.BoolVar(&o.metadata, "metadata", false, "metadata only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	parts := strings.Split(o.resource, "/")
	if len(parts) != 3 {
		return fmt.Errorf("resource %q: want group/version/resource", o.resource)
	}
	resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	informer, err := informerFor(config, o, resource)
	if err != nil {
		return err
	}
	var counters progress.Counters
	sink, err := openSink(ctx, o, &counters)
	if err != nil {
		return err
	}
	if o.strip {
		if err := informer.SetTransform(stripManagedFields); err != nil {
			return err
		}
	}
	h := &handler{sink: sink, resource: resource}
	if _, err := informer.AddEventHandler(h.funcs()); err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	return counters.Serve(ctx, o.listen)
}

func informerFor(config *rest.Config, o options, resource schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
	if o.metadata {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return metadatainformer.NewSharedInformerFactory(client, 0).ForResource(resource).Informer(), nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(resource).Informer(), nil
}

func stripManagedFields(o any) (any, error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return o, nil //nolint:nilerr // a tombstone stays as it is
	}
	object.SetManagedFields(nil)
	return o, nil
}
