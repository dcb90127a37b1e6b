package dynwatch

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

// reviews are the questions about permissions at the start of targets. Of many targets
// most are answered by one question: whether all resources may be listed and watched.
// Its methods may be called concurrently.
type reviews struct {
	turns   chan struct{}
	waiting atomic.Int64

	mu  sync.Mutex // held while a question about all resources is asked
	all map[resourceAttributes]allReview
}

// allReview is the answer to a question about all resources.
type allReview struct {
	allowed bool
	at      time.Time
}

func newReviews() *reviews {
	return &reviews{turns: make(chan struct{}, reviewsAtOnce), all: make(map[resourceAttributes]allReview)}
}

// begin waits for a turn, and reports whether there is one before ctx ends.
func (r *reviews) begin(ctx context.Context) (end func(), ok bool) {
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	select {
	case r.turns <- struct{}{}:
		return func() { <-r.turns }, true
	case <-ctx.Done():
		return nil, false
	}
}

// allowsAll reports whether the credentials allow everything that informd does in all
// groups, or in the group of a resource. With few targets it does not ask.
func (r *reviews) allowsAll(ctx context.Context, client rest.Interface, of resourceAttributes) bool {
	if r.waiting.Load() < manyReviews {
		return false
	}
	of.Version, of.Resource = "", allResources
	inGroup, everywhere := of, of
	everywhere.Group = allResources
	return r.ask(ctx, client, everywhere) || r.ask(ctx, client, inGroup)
}

// ask asks about all resources, unless the answer is known. An error is no answer.
func (r *reviews) ask(ctx context.Context, client rest.Interface, of resourceAttributes) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.all[of]; ok && time.Since(known.at) < reviewAgain {
		return known.allowed
	}
	missing, err := missingVerbs(ctx, client, of)
	if err != nil {
		return false
	}
	for one, known := range r.all {
		if time.Since(known.at) >= reviewAgain {
			delete(r.all, one)
		}
	}
	r.all[of] = allReview{allowed: len(missing) == 0, at: time.Now()}
	return len(missing) == 0
}
