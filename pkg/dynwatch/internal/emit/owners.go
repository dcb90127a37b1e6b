package emit

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

const (
	// eventWait bounds the look-ups for one event.
	eventWait = time.Second
	// freshFor is how long an answer is used: a controller can be adopted, or orphaned. After
	// that the owner is looked up again. If it has gone by then, its last answer stays: a
	// controller often goes before what it controls, and no uid comes back.
	freshFor = 10 * time.Minute
	// maxAnswers are kept, those that were used last, and each for keptFor after its look-up.
	maxAnswers = 10_000
	keptFor    = 24 * time.Hour
	// maxText bounds what an object says of its controller, in bytes. Names of workloads are no longer.
	maxText = 253
)

// OwnerFinder looks owners up for all targets. Its methods may be called concurrently. A nil OwnerFinder
// finds none: each chain has one controller.
type OwnerFinder struct {
	clients *kube.Clients
	logger  *slog.Logger
	// frames reads who an owner is and who controls it.
	frames *frame.Normaliser
	// Wait is how long an event waits for all of its chain. It is set before the first chain.
	Wait time.Duration
	// fresh is freshFor.
	fresh   time.Duration
	answers *cache.LRUExpireCache // of answer by ownerKey

	mu    sync.Mutex // for a moment only
	kinds map[kind]*source
	// full: it was logged that there are too many kinds.
	full bool
}

// ownerKey is an owner as an object in the namespace names it. An object that names another name or kind
// beside the uid, or is in another namespace, has an answer of its own: it learns nothing of the
// owner, and spoils nothing.
type ownerKey struct {
	kind
	namespace, name, uid string
}

// answer is what a look-up has found out.
type answer struct {
	// above is the controller, nil for none. There is false if the owner does not exist.
	above *frame.Owner
	there bool
	until time.Time
}

// NewOwnerFinder returns a OwnerFinder that knows nothing yet.
func NewOwnerFinder(c *kube.Clients, logger *slog.Logger) *OwnerFinder {
	shape := frame.NewShape(frame.ShapeOptions{Owner: true}, nil)
	return &OwnerFinder{
		clients: c, logger: logger, Wait: eventWait, fresh: freshFor, answers: cache.NewLRUExpireCache(maxAnswers), kinds: make(map[kind]*source),
		frames: frame.NewNormaliser("", "", frame.Options{
			Wants: func(string) bool { return false }, Shape: func() *frame.Shape { return shape },
		}),
	}
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
// none. Scope is the namespace of the target, or empty: what its credentials allow may end there.
func (f *OwnerFinder) Chain(ctx context.Context, scope string, of *frame.Object) []byte {
	if of.Owner == nil {
		return nil
	}
	var chain []link
	var until time.Time
	if f != nil {
		until = time.Now().Add(f.Wait)
	}
	for next := of.Owner; next != nil; {
		chain = append(chain, link{Kind: next.Kind, APIVersion: next.APIVersion, Name: next.Name, UID: next.UID})
		above, known := f.above(ctx, until, scope, of.Namespace, next)
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

// firstOwner is the first controller of a chain that Chain wrote, nil if there is none.
func firstOwner(chain []byte) *frame.Owner {
	var links []link
	if err := json.Unmarshal(chain, &links); err != nil || len(links) == 0 {
		return nil
	}
	return &frame.Owner{APIVersion: links[0].APIVersion, Kind: links[0].Kind, Name: links[0].Name, UID: links[0].UID}
}

// above is the controller of a controller, nil if that has none, and false if that is not
// known. It looks up what it does not know, until then.
func (f *OwnerFinder) above(ctx context.Context, until time.Time, scope, namespace string, of *frame.Owner) (*frame.Owner, bool) {
	if f == nil {
		return nil, false
	}
	group, _, ok := strings.Cut(of.APIVersion, "/")
	if !ok {
		group = ""
	}
	if len(of.Name) > maxText || len(of.Kind) > maxText || len(of.UID) > maxText || len(group) > maxText {
		return nil, false // no request is made of it, and no answer kept
	}
	key := ownerKey{kind{group, of.Kind}, namespace, of.Name, of.UID}
	var last answer
	if kept, ok := f.answers.Get(key); ok {
		last, _ = kept.(answer)
	}
	if time.Now().Before(last.until) {
		return last.above, last.there
	}
	if group != "" && len(validation.IsDNS1123Subdomain(group)) > 0 || len(content.IsPathSegmentName(of.Name)) > 0 {
		return nil, false // a path may not be made of it
	}
	now, ok := f.ask(ctx, until, scope, &key)
	if !ok {
		return nil, false
	}
	if !now.there && last.there {
		now.above, now.there = last.above, true
	}
	key.namespace = strings.Clone(namespace) // names of a watch share their memory with those of other objects
	now.until = time.Now().Add(f.fresh)
	f.answers.Add(key, now, keptFor)
	return now.above, now.there
}
