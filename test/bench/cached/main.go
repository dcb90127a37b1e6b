// Command cached is a program with an informer of Pods and no handler, as operators have it for reads:
// that of pkg/informer, or with -stock client-go's dynamic informer. It says how many objects and
// updates its cache has, and, when it is asked, how long reads take.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/pkg/informer"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	listen := flag.String("listen", "", "host:port where to say how far it is")
	stock := flag.Bool("stock", false, "use client-go's informer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *listen, *stock); err != nil && ctx.Err() == nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, listen string, stock bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	i, err := informerFor(config, stock)
	if err != nil {
		return err
	}
	node, err := informer.FieldIndex("spec.nodeName")
	if err != nil {
		return err
	}
	if stock {
		node = nodeOf
	}
	if err := i.AddIndexers(cache.Indexers{"node": node}); err != nil {
		return err
	}
	go i.RunWithContext(ctx)
	p := program{informer: i}
	var network net.ListenConfig
	listener, err := network.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", p.progress)
	mux.HandleFunc("/reads", p.reads)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: mux}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func informerFor(config *rest.Config, stock bool) (cache.SharedIndexInformer, error) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if !stock {
		return informer.NewSharedIndexInformer(config, pods, nil, 0, cache.Indexers{})
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return dynamicinformer.NewFilteredDynamicInformer(client, pods, "", 0, cache.Indexers{}, nil).Informer(), nil
}

// nodeOf is the index of a program that looks for the Pods of a node.
func nodeOf(o any) ([]string, error) {
	pod, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is no object", o)
	}
	node, _, err := unstructured.NestedString(pod.Object, "spec", "nodeName")
	return []string{node}, err
}

// program is the informer while it is measured.
type program struct {
	informer cache.SharedIndexInformer
	began    uint64 // revision of the list, 0 until it is there
}

// progress answers with the numbers of objects and updates. One request at a time.
func (p *program) progress(w http.ResponseWriter, _ *http.Request) {
	if !p.informer.HasSynced() {
		fmt.Fprintln(w, "0 0")
		return
	}
	// Each event of the replay server has the next revision.
	revision, err := strconv.ParseUint(p.informer.LastSyncResourceVersion(), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if p.began == 0 {
		p.began = revision
	}
	fmt.Fprintln(w, len(p.informer.GetStore().ListKeys()), revision-p.began)
}

// reads answers with the microseconds of a Get, and of a Pod of a list by index.
func (p *program) reads(w http.ResponseWriter, _ *http.Request) {
	store := p.informer.GetIndexer()
	keys := store.ListKeys()
	began, gets := time.Now(), min(len(keys), 2_000)
	for n := range gets {
		if _, found, err := store.GetByKey(keys[n*len(keys)/gets]); !found || err != nil {
			http.Error(w, fmt.Sprint(found, err), http.StatusInternalServerError)
			return
		}
	}
	get := float64(time.Since(began).Microseconds()) / float64(gets)
	began = time.Now()
	listed := 0
	for _, node := range store.ListIndexFuncValues("node") {
		found, err := store.ByIndex("node", node)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if listed += len(found); listed > 5_000 {
			break
		}
	}
	fmt.Fprintln(w, get, float64(time.Since(began).Microseconds())/float64(listed))
}
