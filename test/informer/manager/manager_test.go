// Package manager_test compares controller-runtime managers with stock informers and with those of
// pkg/informer on a real control plane.
package manager_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	// controller-runtime's stock informers of metadata leave a goroutine for each watch that ends
	// with an undelivered event (v0.25.2, newGVKFixupWatcher).
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}

// newInformer is the type of NewInformer in cache.Options.
type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// ours is informer.ForControllerRuntime, and fails the test if it returns a stock informer.
func ours(t *testing.T, config *rest.Config) newInformer {
	create := informer.ForControllerRuntime(config)
	stock := fmt.Sprintf("%T", toolscache.NewSharedIndexInformer(nil, nil, 0, nil))
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		i := create(lw, example, resync, indexers)
		if fmt.Sprintf("%T", i) == stock {
			t.Errorf("the informer of %T is client-go's", example)
		}
		return i
	}
}

// manage runs the sample controller in namespaces "<name>-a" and "<name>-b".
func manage(t *testing.T, cfg *rest.Config, name string, create newInformer) *sample {
	t.Helper()
	skip := true
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache:      cache.Options{NewInformer: create, DefaultNamespaces: map[string]cache.Config{name + "-a": {}, name + "-b": {}}},
	})
	e2e.Must(t, err)
	s := &sample{Client: m.GetClient(), states: map[string]string{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	e2e.Must(t, s.setUp(ctx, m))
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Start(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// TestSameController: a controller has the same effects with both kinds of informers: the same
// keys, the same last states, and the same objects in the cluster. The API server is killed twice.
func TestSameController(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	api, err := client.New(c.RESTConfig(), client.Options{})
	e2e.Must(t, err)
	var worlds []*world
	for _, name := range []string{"stock", "informd"} {
		for _, suffix := range []string{"a", "b", "other"} {
			create(t, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + suffix, Labels: map[string]string{"tier": suffix}}})
		}
		cfg, newInformer := c.RESTConfig(), newInformer(nil)
		if name == "informd" {
			newInformer = ours(t, cfg)
		}
		worlds = append(worlds, &world{name: name, api: api, sample: manage(t, cfg, name, newInformer), apps: map[string]app{}, images: map[string]string{}})
	}
	steps := []func(*world, *testing.T){(*world).begin, (*world).change, (*world).changeAgain}
	for n, step := range steps {
		if n > 0 {
			e2e.Must(t, c.APIServer(0).Kill())
			e2e.Must(t, c.APIServer(0).Start(t.Context()))
		}
		for _, w := range worlds {
			step(w, t)
		}
		if n != 1 { // the second restart is in the middle of the work
			for _, w := range worlds {
				w.settle(t)
			}
		}
	}
}

func create(t *testing.T, api client.Client, o client.Object) {
	t.Helper()
	e2e.Must(t, api.Create(t.Context(), o))
}
