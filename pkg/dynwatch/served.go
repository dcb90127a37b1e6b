package dynwatch

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// served tells targets that what the API server serves may have changed, so that
// they need not ask over and over. It watches what decides about it, the
// CustomResourceDefinitions and the APIServices, metadata only: their names say
// which group, and which resource of it, is concerned. What has become of it, only
// discovery knows, and each target looks there by itself.
type served struct {
	watches []*definitionWatch

	// stop is nil until the watches run, and ended waits for them.
	stop  context.CancelFunc
	ended sync.WaitGroup

	// all is woken by every change, for who has to look at all groups.
	all *nudge

	mu          sync.Mutex                     // for a moment only
	subscribers map[string]map[*nudge]struct{} // by group
	// custom are the names of the CustomResourceDefinitions.
	custom map[string]struct{}
}

// nudge wakes one target, or who looks at all groups. The zero value is not usable;
// see newNudge.
type nudge struct {
	// resource is that of the target.
	resource string
	// wake has room for one: a nudge stays until it is taken, and two of them say
	// no more than one.
	wake chan struct{}
	// changed: something has changed. Else nothing is known to have, and the
	// watches have only begun.
	changed atomic.Bool
	// custom: the resource is, or was, a custom one.
	custom atomic.Bool
}

func newNudge(resource string) *nudge {
	return &nudge{resource: resource, wake: make(chan struct{}, 1)}
}

func (n *nudge) send(changed bool) {
	if changed {
		n.changed.Store(true)
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// customResourceDefinitions and apiServices are the resources that decide what is
// served.
func customResourceDefinitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func apiServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
}

func newServed(c *kube.Clients, logger *slog.Logger) (*served, error) {
	s := &served{all: newNudge(""), subscribers: make(map[string]map[*nudge]struct{}), custom: make(map[string]struct{})}
	custom, err := newDefinitionWatch(c, logger,
		customResourceDefinitions(), "CustomResourceDefinition",
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
		apiServices(), "APIService",
		func(name string, _, changed bool) { // <version>.<group>
			_, group, _ := strings.Cut(name, ".")
			s.nudge(group, "", changed)
		})
	s.watches = []*definitionWatch{custom, aggregated}
	return s, err
}

// start begins to watch, unless that has begun.
func (s *served) start(tm timing) {
	if s.stop != nil {
		return
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for _, d := range s.watches {
		s.ended.Go(func() { d.run(ctx, tm) })
	}
}

// close ends the watches and waits until they have ended.
func (s *served) close() {
	if s.stop != nil {
		s.stop()
	}
	s.ended.Wait()
}

// subscribe has a target nudged until it unsubscribes.
func (s *served) subscribe(to spec) *nudge {
	n := newNudge(to.resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, custom := s.custom[to.resource+"."+to.group]
	n.custom.Store(custom)
	if s.subscribers[to.group] == nil {
		s.subscribers[to.group] = make(map[*nudge]struct{})
	}
	s.subscribers[to.group][n] = struct{}{}
	return n
}

func (s *served) unsubscribe(group string, n *nudge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers[group], n)
	if len(s.subscribers[group]) == 0 {
		delete(s.subscribers, group)
	}
}

// define notes that a CustomResourceDefinition is there, or that it is gone.
func (s *served) define(name string, there bool) {
	resource, group, _ := strings.Cut(name, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	if there {
		s.custom[name] = struct{}{}
	} else {
		delete(s.custom, name)
	}
	for n := range s.subscribers[group] {
		if n.resource == resource {
			n.custom.Store(true)
		}
	}
}

// nudge wakes the targets of a group, or those of one resource of it.
func (s *served) nudge(group, resource string, changed bool) {
	s.all.send(changed)
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.subscribers[group] {
		if resource == "" || n.resource == resource {
			n.send(changed)
		}
	}
}

// watching reports whether every change is told of.
func (s *served) watching() bool {
	for _, d := range s.watches {
		if !d.open.Load() {
			return false
		}
	}
	return true
}

// trouble says what cannot be watched, and why; it is empty if nothing is known to
// be wrong.
func (s *served) trouble() string {
	for _, d := range s.watches {
		if why := d.denied.Load(); why != nil {
			return *why
		}
	}
	return ""
}
