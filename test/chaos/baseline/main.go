// Command baseline is the program that people write by hand to copy Kubernetes objects
// into JetStream: a dynamic informer per resource, and an asynchronous publish from its
// handlers. It is written with care: ids for deduplication, unwrapped tombstones, and a
// wait for the acknowledgements at the end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	url := flag.String("url", nats.DefaultURL, "URL of the NATS server")
	stream := flag.String("stream", "EVENTS", "name of the stream, and prefix of its subjects")
	resources := flag.String("resources", "", "group/version/resource, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *url, *stream, *resources); err != nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, url, stream, resources string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		return err
	}
	if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}}); err != nil {
		return fmt.Errorf("create stream %s: %w", stream, err)
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	for name := range strings.SplitSeq(resources, ",") {
		parts := strings.Split(name, "/")
		if len(parts) != 3 {
			return fmt.Errorf("resource %q: want group/version/resource", name)
		}
		r := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
		p := &publisher{js: js, prefix: stream, resource: r, logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
		if _, err := factory.ForResource(r).Informer().AddEventHandler(p.handler()); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("not everything was acknowledged")
	}
}

// publisher publishes one resource's changes.
type publisher struct {
	js       jetstream.JetStream
	prefix   string
	resource schema.GroupVersionResource
	logger   *slog.Logger
}

func (p *publisher) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, _ bool) { p.publish("added", o) },
		UpdateFunc: func(_, o any) { p.publish("modified", o) },
		DeleteFunc: func(o any) {
			if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = tombstone.Obj
			}
			p.publish("deleted", o)
		},
	}
}

func (p *publisher) publish(op string, value any) {
	o, ok := value.(*unstructured.Unstructured)
	if !ok {
		return
	}
	body, err := json.Marshal(map[string]any{"op": op, "group": p.resource.Group, "resource": p.resource.Resource, "object": o.Object})
	if err != nil {
		p.logger.Error("encode", "err", err)
		return
	}
	id := fmt.Sprintf("%s:%s", o.GetUID(), o.GetResourceVersion())
	if op == "deleted" {
		id = fmt.Sprintf("%s:deleted", o.GetUID())
	}
	subject := strings.Join([]string{p.prefix, p.resource.Resource, "ns-" + o.GetNamespace(), strings.NewReplacer(".", "_", ":", "_").Replace(o.GetName())}, ".")
	if _, err := p.js.PublishAsync(subject, body, jetstream.WithMsgID(id)); err != nil {
		p.logger.Error("publish", "subject", subject, "err", err)
	}
}
