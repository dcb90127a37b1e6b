package dynwatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

const (
	// maxOwnerKinds bounds the indexes. Whoever may write an object may name any kind as
	// its controller.
	maxOwnerKinds = 200
	// ownerGrace is how old an index that cannot be kept must be before another one may
	// take its place.
	ownerGrace = time.Minute
)

// owners are the indexes of the resources that objects name as their controllers, shared
// by all targets that ask. An index begins with the first object that names its kind, and
// all end when no target asks any more. The methods may be called concurrently.
type owners struct {
	clients *kube.Clients
	logger  *slog.Logger

	// ended waits for the indexes' loops.
	ended sync.WaitGroup

	mu      sync.Mutex // for a moment only
	wanted  bool
	timing  timing
	indexes map[ownerKind]*ownerIndex
	// full: it was logged that there are too many.
	full bool
}

// ownerKind is what an index is of: a kind, in all namespaces or in the one that the
// target which asks is of, whose credentials may allow no more. A version does not
// matter: a uid is the same in all of them.
type ownerKind struct{ group, kind, namespace string }

// OwnerResources are the resources, sorted by group, from which Kubernetes' own controllers
// make other objects. [Resource.Owner] needs list and watch on them. Custom resources can be
// controllers, too; without permission to read them, a chain ends there.
func OwnerResources() []schema.GroupResource {
	return []schema.GroupResource{
		{Resource: "replicationcontrollers"},
		{Group: "apps", Resource: "daemonsets"},
		{Group: "apps", Resource: "deployments"},
		{Group: "apps", Resource: "replicasets"},
		{Group: "apps", Resource: "statefulsets"},
		{Group: "batch", Resource: "cronjobs"},
		{Group: "batch", Resource: "jobs"},
	}
}

func newOwners(c *kube.Clients, logger *slog.Logger) *owners {
	return &owners{clients: c, logger: logger, indexes: make(map[ownerKind]*ownerIndex)}
}

// want says whether any target asks. If none does, all indexes end, which want waits for.
func (o *owners) want(wanted bool, tm timing) {
	o.mu.Lock()
	o.wanted, o.timing = wanted, tm
	if !wanted {
		for _, x := range o.indexes {
			x.stop()
		}
		clear(o.indexes)
		o.full = false
	}
	o.mu.Unlock()
	if !wanted {
		o.ended.Wait()
	}
}

// above is the controller of a controller, nil if that has none, and false if that is not
// known. It waits no longer than ownerWait for an index that has just begun, and
// ownerLook for a look-up.
func (o *owners) above(ctx context.Context, scope, namespace string, of *frame.Owner) (*frame.Owner, bool) {
	group := groupOf(of.APIVersion)
	if group != "" && len(validation.IsDNS1123Subdomain(group)) > 0 {
		return nil, false // a path may not be made of it
	}
	x := o.index(ownerKind{group: group, kind: of.Kind, namespace: scope})
	if x == nil {
		return nil, false
	}
	return x.above(ctx, namespace, of)
}

// index returns the index of a kind, which begins if there is none, and nil if there can
// be none.
func (o *owners) index(of ownerKind) *ownerIndex {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.indexes[of]; x != nil || !o.wanted {
		return x
	}
	if len(o.indexes) >= maxOwnerKinds && !o.makeRoom() {
		if !o.full {
			o.logger.Warn("too many owner kinds; some owner chains are incomplete", "count", len(o.indexes), "kind", of.kind, "group", of.group)
		}
		o.full = true
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	x := newOwnerIndex(of, o.clients, o.logger, o.timing, stop)
	o.indexes[of] = x
	o.ended.Go(func() { x.run(ctx) })
	return x
}

// makeRoom ends an index that cannot be kept: of a kind that is not served, or that the
// credentials do not allow to read.
func (o *owners) makeRoom() bool {
	for of, x := range o.indexes {
		if time.Since(x.began) > ownerGrace && x.useless() {
			x.stop()
			delete(o.indexes, of)
			return true
		}
	}
	return false
}
