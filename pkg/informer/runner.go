package informer

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
)

// runner runs the targets of the informers of one mode. Its Manager exists while at least one
// informer runs.
type runner struct {
	journal.Stateless
	config  *rest.Config
	options Options
	mode    dynwatch.Mode

	mu      sync.Mutex // held while targets start and end
	running []*sharedInformer
	// manager is changed with mu held, and nil if no informer runs.
	manager atomic.Pointer[dynwatch.Manager]

	routesMu sync.RWMutex
	routes   map[string]*sharedInformer // by target without its namespace
}

func newRunner(config *rest.Config, options Options, mode dynwatch.Mode) *runner {
	return &runner{config: config, options: options, mode: mode, routes: make(map[string]*sharedInformer)}
}

// resource is the wanted resource of an informer.
func (r *runner) resource(gvr schema.GroupVersionResource) dynwatch.Resource {
	wanted := dynwatch.Resource{
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Mode: r.mode, Exact: true,
		LabelSelector: r.options.LabelSelector, FieldSelector: r.options.FieldSelector,
	}
	if r.options.Namespace != "" {
		wanted.Namespaces = []string{r.options.Namespace}
	}
	return wanted
}

// open makes a Manager. It contacts no server.
func (r *runner) open() (*dynwatch.Manager, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails; exact objects have no hashes
	var log journal.Log = r
	if r.options.Journal != nil {
		log = r.options.Journal
	}
	return dynwatch.New(dynwatch.Options{
		Cluster: r.options.Cluster, Kubernetes: r.config, Log: log, RedactionKey: key, Logger: r.options.Logger, Reject: r.reject,
	})
}

// route is the key of an informer in routes.
func route(gvr schema.GroupVersionResource) string {
	return event.GroupOrCore(gvr.Group) + "/" + gvr.Resource
}

// start starts the target of an informer. It does not wait for its list.
func (r *runner) start(i *sharedInformer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.running, func(other *sharedInformer) bool { return route(other.gvr) == route(i.gvr) }) {
		return fmt.Errorf("start informer of %s: a version of the resource is watched already; use another factory", i.gvr)
	}
	m := r.manager.Load()
	if m == nil {
		var err error
		if m, err = r.open(); err != nil {
			return err
		}
		r.manager.Store(m)
	}
	r.running = append(r.running, i)
	r.routesMu.Lock()
	r.routes[route(i.gvr)] = i
	r.routesMu.Unlock()
	err := m.Apply(r.wanted())
	if err != nil {
		r.end(i)
	}
	return err
}

func (r *runner) wanted() []dynwatch.Resource {
	all := make([]dynwatch.Resource, len(r.running))
	for n, i := range r.running {
		all[n] = i.wanted
	}
	return all
}

// stop ends the target of an informer, and waits for its end.
func (r *runner) stop(i *sharedInformer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.running, i) {
		r.end(i)
	}
}

func (r *runner) end(i *sharedInformer) {
	r.running = slices.DeleteFunc(r.running, func(other *sharedInformer) bool { return other == i })
	if len(r.running) == 0 {
		r.manager.Load().Close()
		r.manager.Store(nil)
	} else if err := r.manager.Load().Apply(r.wanted()); err != nil {
		r.options.Logger.Error("watch not ended; call Shutdown of the factory", slog.Any("error", err))
	}
	r.routesMu.Lock()
	delete(r.routes, route(i.gvr))
	r.routesMu.Unlock()
}

// position is the resourceVersion up to which the store of an informer has all changes, 0 if that
// is not known. It does not block.
func (r *runner) position(i *sharedInformer) uint64 {
	if r.options.Journal != nil {
		return 0 // the target is ahead of the store
	}
	return r.target(i).ResourceVersion
}

// target returns the status of the target of an informer, which is empty if there is none.
func (r *runner) target(i *sharedInformer) dynwatch.TargetStatus {
	m := r.manager.Load()
	if m == nil {
		return dynwatch.TargetStatus{}
	}
	for _, target := range m.Targets() {
		if r.informer(target.Name) == i {
			return target
		}
	}
	return dynwatch.TargetStatus{}
}

func (r *runner) informer(target string) *sharedInformer {
	name, _, _ := strings.Cut(target, "@")
	r.routesMu.RLock()
	defer r.routesMu.RUnlock()
	return r.routes[name]
}

// Append implements [journal.Log]: it hands events to the store and the handlers of their
// informer. It blocks while the queue of a handler is full.
func (r *runner) Append(ctx context.Context, events []event.Event) error {
	if len(events) == 0 {
		return ctx.Err()
	}
	i := r.informer(events[0].Target) // those of one call are of one target
	if i == nil {
		return ctx.Err()
	}
	return i.apply(ctx, events)
}

// reject counts an object that is not valid.
func (r *runner) reject(_ context.Context, bad dynwatch.Rejected) error {
	if i := r.informer(bad.Target); i != nil {
		i.stats.malformed.Add(1) // the target logs it
	}
	return nil
}
