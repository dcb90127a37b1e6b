package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/cluster/proc"
)

// In an independent run, programs that were not written for this test make the load:
// kube-controller-manager, kube-scheduler, and kwok in place of kubelets. The test
// only asks them for Deployments, Jobs and so on. informd has one wildcard over
// everything, and etcd's history, matched by UID, is the truth about all of it.
const (
	independentNodes = 30
	independentRate  = 10 // writes per second of the workload beside the controllers
	keepInterval     = time.Second
)

// wildcardEntry is informd's entry for everything.
const wildcardEntry = `  - {group: "*", resource: "*"}` + "\n"

// visitor is the custom resource that the load installs and removes.
func visitor() *Kind {
	return custom("visitors", "Visitor", true, 0,
		func(s string) string { return fmt.Sprintf(`{"spec":{"text":%q}}`, s) }, nil)
}

// independentKinds are those that the test itself writes: custom resources, and
// Secrets with values that must not show.
func independentKinds() []*Kind {
	all := slices.DeleteFunc(kinds(), func(k *Kind) bool { return !k.custom && k.gvr.Resource != "secrets" || !k.rule().plain() })
	return append(all, visitor())
}

// discoverKinds adds every other resource that the API server lets clients list and
// watch. Only the oracle and the checks use them.
func (r *Rig) discoverKinds() error {
	client, err := discovery.NewDiscoveryClientForConfig(r.cluster.RESTConfig())
	if err != nil {
		return err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return fmt.Errorf("discover the resources: %w", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range list.APIResources {
			watched := slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "watch")
			target := targetName(gv.Group, resource.Name)
			// Events have two names; informd watches the one of the core group.
			if !watched || r.targets[target] || target == "events.k8s.io/events" {
				continue
			}
			r.targets[target] = true
			r.kinds = append(r.kinds, &Kind{gvr: gv.WithResource(resource.Name), kind: resource.Kind, namespaced: resource.Namespaced})
		}
	}
	return nil
}

// controllers are the processes that make the load, and the one that starts them
// again when they end, as they do without an API server.
type controllers struct {
	processes []*proc.Process
	cancel    context.CancelFunc
	ended     chan struct{}
}

func keepControllers(c *cluster.Cluster) *controllers {
	ctx, cancel := context.WithCancel(context.Background())
	k := &controllers{
		processes: []*proc.Process{c.ControllerManager(), c.Scheduler(), c.KWOK()},
		cancel:    cancel, ended: make(chan struct{}),
	}
	go func() {
		defer close(k.ended)
		ticker := time.NewTicker(keepInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for _, p := range k.processes {
				if !p.Running() {
					_ = p.Start(ctx) // tried again at the next tick
				}
			}
		}
	}()
	return k
}

// stop kills them, so that the cluster comes to rest.
func (k *controllers) stop() error {
	k.cancel()
	<-k.ended
	for _, p := range k.processes {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	return nil
}

// startLoad starts what writes.
func (r *run) startLoad() error {
	rate := r.options.Rate
	r.workload = StartWorkload(r.rig.dynamic, r.rig.kinds, r.options.Seed, rate)
	if !r.options.Independent {
		return nil
	}
	r.controllers = keepControllers(r.rig.cluster)
	config := rest.CopyConfig(r.rig.cluster.RESTConfig())
	config.Timeout = requestTimeout
	demands, err := newDemands(config, r.rig.dynamic, r.options)
	if err != nil {
		return err
	}
	r.workload.demand(demands)
	return nil
}

// stopLoad ends all writing but the API servers' own.
func (r *run) stopLoad() error {
	r.workload.Stop()
	if r.controllers == nil {
		return nil
	}
	err := r.controllers.stop()
	r.controllers = nil
	return err
}

// resources are the entries of informd's config.
func (r *Rig) resources() string {
	if r.options.Independent {
		return wildcardEntry
	}
	var b strings.Builder
	for _, k := range r.kinds {
		fmt.Fprintf(&b, "  - %s\n", k.entry())
	}
	return b.String()
}
