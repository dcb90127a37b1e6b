// Package owner finds the controllers of controllers, and writes their chains as members of
// events. It reads metadata only, keeps the controller of each object, and delays no event
// for long: what it cannot find out ends the chain. Its callers are the targets.
package owner

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

const (
	// maxKinds bounds the kinds of the indexes, whatever the number of their namespaces. An
	// author of an object may name any kind as its controller.
	maxKinds = 200
	// grace is how old an index that cannot be kept must be before another one may
	// take its place.
	grace = time.Minute
)

// Finder holds the indexes of the resources that objects name as their controllers, shared
// by all targets that ask. An index begins with the first object that names its kind, and
// all end when no target asks any more. The methods may be called concurrently.
type Finder struct {
	clients *kube.Clients
	logger  *slog.Logger

	// ended waits for the indexes' loops.
	ended sync.WaitGroup

	mu      sync.Mutex // for a moment only
	wanted  bool
	timing  listwatch.Timing
	indexes map[kind]map[string]*index // by kind and namespace, empty for all
	// full: it was logged that there are too many.
	full bool
}

// kind is what an index is of, in all namespaces or in the one that the target which asks
// is of, whose credentials may allow no more. A version does not matter: a uid is the
// same in all of them.
type kind struct{ group, kind string }

// New makes a Finder that is not started.
func New(c *kube.Clients, logger *slog.Logger) *Finder {
	return &Finder{clients: c, logger: logger, indexes: make(map[kind]map[string]*index)}
}

// Start lets indexes begin, with these periods.
func (f *Finder) Start(tm listwatch.Timing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted, f.timing = true, tm
}

// Stop ends all indexes and waits for their end.
func (f *Finder) Stop() {
	f.mu.Lock()
	f.wanted, f.full = false, false
	for of := range f.indexes {
		f.end(of)
	}
	f.mu.Unlock()
	f.ended.Wait()
}

// maxChain bounds a chain of controllers. None that Kubernetes makes has more than three.
const maxChain = 10

// link is one controller of a chain. Complete is false, and else left out, in the last
// one if the chain could not be followed further.
type link struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Complete   *bool  `json:"complete,omitempty"`
}

// Chain is the chain of an object's controllers as JSON, the direct one first, nil if it has
// none. The indexes are of the scope, a namespace or, if it is empty, all of them.
func (f *Finder) Chain(ctx context.Context, scope string, of *frame.Object) []byte {
	if of.Owner == nil {
		return nil
	}
	var chain []link
	p := waitBudget{until: time.Now().Add(listWait), looks: lookWait}
	for next := of.Owner; next != nil; {
		chain = append(chain, link{Kind: next.Kind, APIVersion: next.APIVersion, Name: next.Name, UID: next.UID})
		above, known := f.above(ctx, &p, scope, of.Namespace, next)
		again := above != nil && slices.ContainsFunc(chain, func(l link) bool { return l.UID == above.UID })
		if !known || again || above != nil && len(chain) == maxChain {
			chain[len(chain)-1].Complete = new(bool)
			break
		}
		next = above
	}
	text, _ := json.Marshal(chain) // strings can always be encoded
	return text
}

// First is the first controller of a chain that Chain wrote, nil if there is none.
func First(chain []byte) *frame.Owner {
	var links []link
	if err := json.Unmarshal(chain, &links); err != nil || len(links) == 0 {
		return nil
	}
	return &frame.Owner{APIVersion: links[0].APIVersion, Kind: links[0].Kind, Name: links[0].Name, UID: links[0].UID}
}

// waitBudget is the time that is left to an event: until is the deadline for its whole chain,
// looks the time for look-ups by name.
type waitBudget struct {
	until time.Time
	looks time.Duration
}

// above is the controller of a controller, nil if that has none, and false if that is not
// known. It waits for an index that has just begun, and for a look-up, as long as p allows.
func (f *Finder) above(ctx context.Context, p *waitBudget, scope, namespace string, of *frame.Owner) (*frame.Owner, bool) {
	group, _, ok := strings.Cut(of.APIVersion, "/")
	if !ok {
		group = ""
	}
	if group != "" && len(validation.IsDNS1123Subdomain(group)) > 0 {
		return nil, false // a path may not be made of it
	}
	x := f.index(kind{group: group, kind: of.Kind}, scope)
	if x == nil {
		return nil, false
	}
	return x.above(ctx, p, namespace, of)
}

// index returns the index of a kind in a scope, which begins if there is none, and nil if
// there can be none.
func (f *Finder) index(of kind, scope string) *index {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.indexes[of][scope]; x != nil || !f.wanted {
		return x
	}
	if f.indexes[of] == nil && len(f.indexes) >= maxKinds && !f.makeRoom() {
		if !f.full {
			f.logger.Warn("too many owner kinds; some owner chains are incomplete", "count", len(f.indexes), "kind", of.kind, "group", of.group)
		}
		f.full = true
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	x := newIndex(of, scope, f.clients, f.logger, f.timing, stop)
	if f.indexes[of] == nil {
		f.indexes[of] = make(map[string]*index)
	}
	f.indexes[of][scope] = x
	f.ended.Go(func() { x.run(ctx) })
	return x
}

// makeRoom ends the indexes of a kind that cannot be kept: one that is not served, or that the
// credentials do not allow to read.
func (f *Finder) makeRoom() bool {
	for of, all := range f.indexes {
		kept := false
		for _, x := range all {
			kept = kept || time.Since(x.began) <= grace || !x.useless()
		}
		if !kept {
			f.end(of)
			return true
		}
	}
	return false
}

// end ends the indexes of a kind.
func (f *Finder) end(of kind) {
	for _, x := range f.indexes[of] {
		x.stop()
	}
	delete(f.indexes, of)
}
