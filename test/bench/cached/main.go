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

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
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
	p := program{informer: i, stock: stock}
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
	stock    bool
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

// reads answers with the microseconds of CPU time of a Get, and of a Pod of a list by index. Those of
// client-go's list include decoding the Pod from JSON, which a list of pkg/informer does.
func (p *program) reads(w http.ResponseWriter, _ *http.Request) {
	store := p.informer.GetIndexer()
	keys := store.ListKeys()
	gets := min(len(keys), 5_000)
	get, err := cpuOf(func() error {
		for n := range gets {
			if _, found, err := store.GetByKey(keys[n*len(keys)/gets]); !found || err != nil {
				return fmt.Errorf("%v, %w", found, err)
			}
		}
		return nil
	})
	var list time.Duration
	listed := 0
	for _, node := range store.ListIndexFuncValues("node") {
		if err != nil || listed > 5_000 {
			break
		}
		var found []any
		var took, decoding time.Duration
		took, err = cpuOf(func() (err error) {
			found, err = store.ByIndex("node", node)
			return err
		})
		if err == nil && p.stock {
			decoding, err = decode(found)
		}
		list += took + decoding
		listed += len(found)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, float64(get.Nanoseconds())/1e3/float64(gets), float64(list.Nanoseconds())/1e3/float64(max(1, listed)))
}

// decode returns the CPU time of decoding objects from JSON with the decoder of client-go.
func decode(objects []any) (time.Duration, error) {
	texts := make([][]byte, len(objects))
	for n, o := range objects {
		var err error
		if texts[n], err = json.Marshal(o); err != nil {
			return 0, err
		}
	}
	return cpuOf(func() error {
		for _, text := range texts {
			var o map[string]any
			if err := json.Unmarshal(text, &o); err != nil {
				return err
			}
		}
		return nil
	})
}

// cpuOf returns the CPU time that the process takes during a call, garbage collection included.
func cpuOf(call func() error) (time.Duration, error) {
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &before); err != nil {
		return 0, err
	}
	if err := call(); err != nil {
		return 0, err
	}
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &after)
	return time.Duration(after.Nano() - before.Nano()), err
}
