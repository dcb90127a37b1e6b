package replay

import (
	"context"
	"sync"
	"time"
)

// firstRevision is the revision before that of the first object. Revisions keep
// their ten digits.
const firstRevision = 1_000_000_000

// stride is how far apart, in their order, objects are that change one after the
// other: a prime, so that it has a common divisor with no sensible number of
// objects, and neighbours do not change together.
const stride = 7919

// history is which object which revision is of.
type history struct {
	objects uint64
	inverse uint64 // of stride, modulo objects

	mu   sync.Mutex
	head uint64        // the newest revision
	wake chan struct{} // closed and replaced when head moves
}

func newHistory(objects int) *history {
	h := &history{objects: uint64(objects), head: firstRevision + uint64(objects), wake: make(chan struct{})}
	for h.inverse = range h.objects {
		if h.inverse*(stride%h.objects)%h.objects == 1%h.objects {
			break
		}
	}
	return h
}

// at is which object a revision is of.
func (h *history) at(revision uint64) int {
	return int((revision - firstRevision) % h.objects * (stride % h.objects) % h.objects)
}

// last is the revision that an object has at a revision of the whole.
func (h *history) last(object int, at uint64) uint64 {
	turn := uint64(object) * h.inverse % h.objects // the object's place in each round
	now := at - firstRevision
	if behind := (now%h.objects + h.objects - turn) % h.objects; behind > 0 {
		return at - behind
	}
	return at
}

// now returns the newest revision.
func (h *history) now() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.head
}

// advance lets n more revisions happen.
func (h *history) advance(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head += n
	close(h.wake)
	h.wake = make(chan struct{})
}

// beyond blocks until there is a revision after that one, or ctx or a tick
// ends it, and returns the newest revision.
func (h *history) beyond(ctx context.Context, revision uint64, tick <-chan time.Time) uint64 {
	for {
		h.mu.Lock()
		head, wake := h.head, h.wake
		h.mu.Unlock()
		if head > revision {
			return head
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return head
		case <-tick:
			return head
		}
	}
}
