// Command baseline is the program that people write by hand to copy the Pods of a
// cluster: client-go's dynamic informer, json.Marshal, and a sink. It has
// sensible defaults: no resync, no rate limit, asynchronous publishing, batches. It does
// less than informd: no history, no order over sinks, no state after its end.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/test/bench/progress"
)

// options are the flags.
type options struct {
	kubeconfig, listen, sink, url string
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	flag.StringVar(&o.listen, "listen", "", "host:port where to say how far it is")
	flag.StringVar(&o.sink, "sink", "none", "none, stdout or nats")
	flag.StringVar(&o.url, "url", "", "where the sink delivers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	var counters progress.Counters
	sink, err := openSink(o, &counters)
	if err != nil {
		return err
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	informer := dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(pods).Informer()
	h := &handler{sink: sink, resource: pods}
	if _, err := informer.AddEventHandler(h.funcs()); err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	return counters.Serve(ctx, o.listen)
}
