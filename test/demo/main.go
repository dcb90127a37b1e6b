// Command demo shows informd at work. It starts a control plane and a NATS server on
// loopback, creates a custom resource and a workload that changes continuously, and runs
// informd, which prints their events until Ctrl-C. With DEMO_CLUSTER=existing it uses the
// cluster of $KUBECONFIG instead, and removes the objects that it created there at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

func main() {
	informd := flag.String("informd", "../bin/informd", "the informd `binary` to run")
	duration := flag.Duration("for", 0, "stop after this time (default: 0, at Ctrl-C)")
	remind := flag.Duration("remind", 30*time.Second, "repeat the hints after this time; 0: never")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *duration)
		defer cancel()
	}
	if err := run(ctx, *informd, *remind); err != nil {
		say("error: %v", err)
		stop()
		os.Exit(1)
	}
}

// say prints progress to standard error, separate from the events on standard output.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "demo: "+format+"\n", args...)
}

func run(ctx context.Context, informd string, remind time.Duration) (err error) {
	if _, err := os.Stat(informd); err != nil {
		return fmt.Errorf("find informd: %w; run make build", err)
	}
	target, err := openCluster(ctx)
	if err != nil {
		return orInterrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, target.close()) }()

	say("starting nats-server with JetStream")
	bus, err := natsserver.New(ctx, natsserver.Options{})
	if err != nil {
		return orInterrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, bus.Close()) }()

	client, err := dynamic.NewForConfig(target.config)
	if err != nil {
		return err
	}
	w := &workload{client: client, own: target.own}
	if !target.own {
		defer func() { err = errors.Join(err, w.remove()) }()
	}
	say("creating the custom resource sensors.demo.informd.dev and the namespace %s", namespace)
	if err := w.prepare(ctx); err != nil {
		return orInterrupted(ctx, err)
	}

	d, err := startInformd(informd, target.kubeconfig, bus.URL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	h, err := newHints(d, target.kubeconfig, bus.URL())
	if err != nil {
		return err
	}
	h.show()

	work, cancel := context.WithCancel(ctx)
	defer cancel()
	go h.repeat(work, remind)
	go func() {
		select {
		case <-d.exited:
			cancel()
		case <-work.Done():
		}
	}()
	err = w.run(work)
	if work.Err() != nil && ctx.Err() == nil {
		return errors.Join(errors.New("informd stopped; its log above has the reason"), d.err)
	}
	say("stopping")
	return err
}

// orInterrupted returns nil if the demo was stopped, because err follows from that.
func orInterrupted(ctx context.Context, err error) error {
	switch ctx.Err() {
	case nil:
		return err
	default:
		return nil
	}
}

// target is the cluster of the demo.
type target struct {
	config     *rest.Config
	kubeconfig string
	// own: the demo started the cluster, and may change everything in it.
	own   bool
	close func() error
}

func openCluster(ctx context.Context) (*target, error) {
	if os.Getenv("DEMO_CLUSTER") == "existing" {
		return existingCluster()
	}
	say("starting a control plane: real etcd and kube-apiserver")
	began := time.Now()
	c, err := cluster.New(ctx, cluster.Options{})
	if err != nil {
		return nil, err
	}
	say("control plane ready after %s; KUBECONFIG=%s", time.Since(began).Round(time.Second), c.Kubeconfig())
	return &target{config: c.RESTConfig(), kubeconfig: c.Kubeconfig(), own: true, close: c.Close}, nil
}

func existingCluster() (*target, error) {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		return nil, errors.New("DEMO_CLUSTER=existing needs KUBECONFIG: set it to the path of a kubeconfig")
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read KUBECONFIG: %w", err)
	}
	say("using the cluster at %s", config.Host)
	return &target{config: config, kubeconfig: path, close: func() error { return nil }}, nil
}
