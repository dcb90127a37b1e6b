package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// reviewsAtOnce is how many targets are asked about at a time, so that the start of
	// many is not slowed down by it.
	reviewsAtOnce = 4
	// manyReviews is how many targets must wait for their review before informd asks
	// whether everything is allowed.
	manyReviews = 16
	// allResources stands for all groups, and for all resources, in a rule of RBAC.
	allResources = "*"
)

// Reviews are the questions about permissions at the start of targets. Of many targets
// most are answered by one question: whether all resources may be listed and watched.
// Its methods may be called concurrently.
type Reviews struct {
	turns   chan struct{}
	waiting atomic.Int64

	mu  sync.Mutex // held while a question about all resources is asked
	all map[Attributes]allReview
}

// allReview is the answer to a question about all resources.
type allReview struct {
	allowed bool
	at      time.Time
}

// NewReviews returns Reviews without answers.
func NewReviews() *Reviews {
	return &Reviews{turns: make(chan struct{}, reviewsAtOnce), all: make(map[Attributes]allReview)}
}

// Missing returns the verbs that the credentials lack for a resource. It waits
// until fewer than 4 others ask, or ctx ends.
func (r *Reviews) Missing(ctx context.Context, client rest.Interface, of Attributes) ([]string, error) {
	end, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	limited, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if r.allowsAll(limited, client, of) {
		return nil, nil
	}
	return MissingVerbs(limited, client, of, NeededVerbs())
}

// begin waits for a turn. The error is that of ctx.
func (r *Reviews) begin(ctx context.Context) (end func(), err error) {
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	select {
	case r.turns <- struct{}{}:
		return func() { <-r.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// allowsAll reports whether the credentials allow everything that informd does in all
// groups, or in the group of a resource. With few targets it does not ask.
func (r *Reviews) allowsAll(ctx context.Context, client rest.Interface, of Attributes) bool {
	if r.waiting.Load() < manyReviews {
		return false
	}
	inGroup := Attributes{Namespace: of.Namespace, Group: of.Group, Resource: allResources}
	everywhere := inGroup
	everywhere.Group = allResources
	return r.ask(ctx, client, everywhere) || r.ask(ctx, client, inGroup)
}

// ask asks about all resources, unless the answer is known. An error is no answer.
func (r *Reviews) ask(ctx context.Context, client rest.Interface, of Attributes) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.all[of]; ok && time.Since(known.at) < ReviewAgain {
		return known.allowed
	}
	missing, err := MissingVerbs(ctx, client, of, NeededVerbs())
	if err != nil {
		return false
	}
	for one, known := range r.all {
		if time.Since(known.at) >= ReviewAgain {
			delete(r.all, one)
		}
	}
	r.all[of] = allReview{allowed: len(missing) == 0, at: time.Now()}
	return len(missing) == 0
}
