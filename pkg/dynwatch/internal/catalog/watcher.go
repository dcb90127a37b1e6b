package catalog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// Watcher wakes its subscribers when the API server may serve something else, so that they
// need not poll. It watches the CustomResourceDefinitions and the APIServices, metadata only:
// their names say which group, and which resource of it, is concerned. Only discovery knows
// the result, and each subscriber asks there.
type Watcher struct {
	clients *kube.Clients
	watches []*definitionWatch

	// stop is nil until the watches run, and ended waits for them.
	stop  context.CancelFunc
	ended sync.WaitGroup

	// All is woken by every change.
	All *Notice

	mu          sync.Mutex                      // for a moment only
	subscribers map[string]map[*Notice]struct{} // by group
	// custom are the names of the CustomResourceDefinitions.
	custom map[string]struct{}
}

// Notice wakes one subscriber. The zero value is not usable; see newNotice.
type Notice struct {
	// resource is that of the subscriber.
	resource string
	// Wake has capacity for one: it stays until it is taken, and two say no more than one.
	Wake chan struct{}
	// Changed: something has changed. Else nothing is known to have, and the
	// watches have only begun.
	Changed atomic.Bool
	// Custom: the resource is, or was, a custom one.
	Custom atomic.Bool
	// Removed is when the news came that the resource's definition was removed, nil while it
	// is there.
	Removed atomic.Pointer[time.Time]
}

func newNotice(resource string) *Notice {
	return &Notice{resource: resource, Wake: make(chan struct{}, 1)}
}

// Send wakes the subscriber.
func (n *Notice) Send(changed bool) {
	if changed {
		n.Changed.Store(true)
	}
	select {
	case n.Wake <- struct{}{}:
	default:
	}
}

// CustomResourceDefinitions is one of the two resources that decide what is served.
func CustomResourceDefinitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// APIServices is the other one.
func APIServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
}

// NewWatcher makes a Watcher, which begins with Start.
func NewWatcher(c *kube.Clients, logger *slog.Logger) (*Watcher, error) {
	s := &Watcher{clients: c, All: newNotice(""), subscribers: make(map[string]map[*Notice]struct{}), custom: make(map[string]struct{})}
	custom, err := newDefinitionWatch(c, logger,
		CustomResourceDefinitions(), "CustomResourceDefinition",
		func(name string, there, changed bool) { // <plural>.<group>
			resource, group, _ := strings.Cut(name, ".")
			s.define(name, there)
			s.nudge(group, resource, changed)
		})
	if err != nil {
		return nil, err
	}
	// Every version of every group has one, those of custom resources, too.
	aggregated, err := newDefinitionWatch(c, logger,
		APIServices(), "APIService",
		func(name string, _, changed bool) { // <version>.<group>
			_, group, _ := strings.Cut(name, ".")
			s.nudge(group, "", changed)
		})
	s.watches = []*definitionWatch{custom, aggregated}
	return s, err
}

// Start begins to watch, unless that has begun.
func (s *Watcher) Start(tm listwatch.Timing) {
	if s.stop != nil {
		return
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for _, d := range s.watches {
		d.watch.SetTiming(tm)
		s.ended.Go(func() { d.watch.Run(ctx) })
	}
}

// Close ends the watches and waits until they have ended.
func (s *Watcher) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.ended.Wait()
}

// Subscribe has a resource's changes sent to a Notice until Unsubscribe.
func (s *Watcher) Subscribe(to schema.GroupResource) *Notice {
	n := newNotice(to.Resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, custom := s.custom[to.Resource+"."+to.Group]
	n.Custom.Store(custom)
	if s.subscribers[to.Group] == nil {
		s.subscribers[to.Group] = make(map[*Notice]struct{})
	}
	s.subscribers[to.Group][n] = struct{}{}
	return n
}

// Unsubscribe ends what Subscribe began.
func (s *Watcher) Unsubscribe(group string, n *Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers[group], n)
	if len(s.subscribers[group]) == 0 {
		delete(s.subscribers, group)
	}
}

// define notes that a CustomResourceDefinition is there, or that it is gone.
func (s *Watcher) define(name string, there bool) {
	resource, group, _ := strings.Cut(name, ".")
	var removed *time.Time
	s.mu.Lock()
	defer s.mu.Unlock()
	if there {
		s.custom[name] = struct{}{}
	} else {
		delete(s.custom, name)
		removed = new(time.Now())
	}
	for n := range s.subscribers[group] {
		if n.resource == resource {
			n.Custom.Store(true)
			n.Removed.Store(removed)
		}
	}
}

// Ahead reports whether a CustomResourceDefinition is there whose resource a wildcard matches and a catalog lacks. No
// notice may follow: an API server that has just started lists no custom resources for a moment.
func (s *Watcher) Ahead(c *Catalog, wanted *Set) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.custom {
		resource, group, _ := strings.Cut(name, ".")
		one := schema.GroupResource{Group: group, Resource: resource}
		_, matches := wanted.Owner(one)
		if _, listed := c.Find(AnyVersion, one); matches && !listed {
			return true
		}
	}
	return false
}

// nudge wakes the subscribers of a group, or those of one resource of it.
func (s *Watcher) nudge(group, resource string, changed bool) {
	s.All.Send(changed)
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.subscribers[group] {
		if resource == "" || n.resource == resource {
			n.Send(changed)
		}
	}
}

// Watching reports whether it notices every change.
func (s *Watcher) Watching() bool {
	for _, d := range s.watches {
		if !d.open.Load() {
			return false
		}
	}
	return true
}

// Trouble says what cannot be watched, and why; empty if everything can.
func (s *Watcher) Trouble() string {
	for _, d := range s.watches {
		if why := d.denied.Load(); why != nil {
			return *why
		}
	}
	return ""
}
