package kube

import (
	"context"
	"sync"
)

// Head reads the newest revision of a resource in etcd.
type Head func(ctx context.Context) (uint64, error)

// Rollbacks are the rollbacks of etcd that targets have found: a store was restored to an
// older state. A target whose watch was closed meanwhile cannot find it if the new history has
// passed its position. It learns of it here. Safe for concurrent use.
type Rollbacks struct {
	mu sync.Mutex
	// number counts the rollbacks. Found has the last one of each target.
	number uint64
	found  map[string]rollback
	// considered has the number up to which a target that does not run has considered them.
	considered map[string]uint64
	// next is closed at the next rollback.
	next chan struct{}
}

type rollback struct {
	number uint64
	head   Head
}

func newRollbacks() *Rollbacks {
	return &Rollbacks{found: make(map[string]rollback), considered: make(map[string]uint64), next: make(chan struct{})}
}

// Add adds a rollback that a target has found, unless another one was added after the one
// with the number known. Head reads the newest revision of the target's resource.
func (r *Rollbacks) Add(target string, known uint64, head Head) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.number != known {
		return false
	}
	r.number++
	r.found[target] = rollback{number: r.number, head: head}
	close(r.next)
	r.next = make(chan struct{})
	return true
}

// Keep notes that a target ends, which has considered the rollbacks up to a number.
func (r *Rollbacks) Keep(target string, considered uint64) {
	if considered == 0 {
		return // as without a note
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.considered[target] = considered
}

// Considered returns the number that was kept of a target, 0 if none was.
func (r *Rollbacks) Considered(target string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.considered[target]
}

// Last returns the number of the last rollback, and a channel that is closed at the next one.
func (r *Rollbacks) Last() (number uint64, next <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.number, r.next
}

// FoundAfter reports whether a rollback after the one with the number known concerns the etcd of
// the resource whose newest revision own reads.
func (r *Rollbacks) FoundAfter(ctx context.Context, known uint64, own Head) (bool, error) {
	var heads []Head
	r.mu.Lock()
	for _, one := range r.found {
		if one.number > known {
			heads = append(heads, one.head)
		}
	}
	r.mu.Unlock()
	for _, head := range heads {
		if shared, err := shareStore(ctx, head, own); shared || err != nil {
			return shared, err
		}
	}
	return false, nil
}

// shareStore reports whether two resources are in one etcd: aggregated API servers have their own,
// and an API server can have more than one (--etcd-servers-overrides). In one etcd all
// resources share one revision, so that one read between two others is between them. Without an
// answer of the other resource the store counts as the same: an unneeded reconcile loses nothing.
func shareStore(ctx context.Context, other, own Head) (bool, error) {
	before, err := other(ctx)
	if err != nil {
		return true, ctx.Err()
	}
	at, err := own(ctx)
	if err != nil {
		return false, err
	}
	after, err := other(ctx)
	return err != nil || before <= at && at <= after, ctx.Err()
}
